// Bills purchases with kafkajs: one transaction has the invoices, the shipments and the offset of a batch.
//
// This is a plain program, written as the documentation of kafkajs says. docs/findings/kafkajs-abort.md says what is wrong
// with its client. Run one instance only: kafkajs sends offsets without the generation of the group (KIP-447).

import { parseArgs } from 'node:util'
import kafkajs from 'kafkajs'

const { values: options } = parseArgs({
  options: {
    brokers: { type: 'string' },
    'transactional-id': { type: 'string' },
    group: { type: 'string', default: 'billing-kafkajs' }
  }
})
const transactionalId = options['transactional-id']
const { Kafka, logLevel } = kafkajs
const kafka = new Kafka({ clientId: transactionalId, brokers: options.brokers.split(','), logLevel: logLevel.ERROR })
const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
const consumer = kafka.consumer({ groupId: options.group, sessionTimeout: 6000, heartbeatInterval: 1000 })
const log = text => console.error(`${new Date().toISOString()} ${transactionalId}: ${text}`)

function outputs(messages) {
  const invoices = []
  const shipments = []
  for (const { key, value } of messages) {
    const { purchase_id, pieces, price } = JSON.parse(value)
    invoices.push({ key, value: JSON.stringify({ purchase_id, amount: pieces * price }) })
    shipments.push({ key, value: JSON.stringify({ purchase_id, pieces }) })
  }
  return [
    { topic: 'invoices', messages: invoices },
    { topic: 'shipments', messages: shipments }
  ]
}

async function eachBatch({ batch, resolveOffset, isRunning, isStale }) {
  if (!isRunning() || isStale() || batch.isEmpty()) return
  const { topic, partition } = batch
  const offset = String(BigInt(batch.lastOffset()) + 1n)
  const transaction = await producer.transaction()
  try {
    await transaction.sendBatch({ topicMessages: outputs(batch.messages) })
    await transaction.sendOffsets({ consumerGroupId: options.group, topics: [{ topic, partitions: [{ partition, offset }] }] })
    await transaction.commit()
    resolveOffset(batch.lastOffset()) // the next fetch begins behind the batch
  } catch (error) {
    log(`aborts the transaction of ${topic}/${partition} @ ${batch.firstOffset()} to ${batch.lastOffset()}: ${error.message}`)
    await transaction.abort()
    consumer.seek({ topic, partition, offset: batch.firstOffset() })
  }
}

async function close() {
  setTimeout(() => process.exit(0), 3000).unref()
  await Promise.allSettled([consumer.disconnect(), producer.disconnect()])
  process.exit(0)
}
process.on('SIGTERM', close)
process.on('SIGINT', close)
consumer.on('consumer.crash', () => process.exit(1))

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: ['purchases'], fromBeginning: true })
await consumer.run({ eachBatchAutoResolve: false, autoCommit: false, eachBatch })
