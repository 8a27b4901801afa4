// Bills purchases: one transaction has the invoices, the shipments and the offsets of a batch.
//
// This is a plain program with kafkajs, written as its documentation says. It knows nothing of Fencepost.

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
const kafka = new kafkajs.Kafka({
  clientId: transactionalId,
  brokers: options.brokers.split(','),
  logLevel: kafkajs.logLevel.ERROR
})
const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
const consumer = kafka.consumer({ groupId: options.group, sessionTimeout: 6000, heartbeatInterval: 1000, readUncommitted: false })

async function bill({ batch, isRunning, isStale, resolveOffset }) {
  if (!isRunning() || isStale() || batch.isEmpty()) return
  const invoices = []
  const shipments = []
  for (const { key, value } of batch.messages) {
    const purchase = JSON.parse(value)
    invoices.push({ key, value: JSON.stringify({ purchase_id: purchase.purchase_id, amount: purchase.pieces * purchase.price }) })
    shipments.push({ key, value: JSON.stringify({ purchase_id: purchase.purchase_id, pieces: purchase.pieces }) })
  }
  const offset = (BigInt(batch.lastOffset()) + 1n).toString()
  const topics = [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset }] }]
  const transaction = await producer.transaction()
  try {
    await transaction.sendBatch({ topicMessages: [{ topic: 'invoices', messages: invoices }, { topic: 'shipments', messages: shipments }] })
    await transaction.sendOffsets({ consumerGroupId: options.group, topics })
    await transaction.commit()
    resolveOffset(batch.lastOffset()) // so that the next fetch begins behind the batch
  } catch (error) {
    console.error(`aborts the transaction of ${batch.topic}/${batch.partition} @ ${batch.firstOffset()}: ${error.message}`)
    await transaction.abort()
    consumer.seek({ topic: batch.topic, partition: batch.partition, offset: batch.firstOffset() })
  }
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, async () => {
    setTimeout(() => process.exit(0), 3000).unref()
    await consumer.disconnect()
    await producer.disconnect()
    process.exit(0)
  })
}
consumer.on('consumer.crash', () => process.exit(1))
await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: ['purchases'], fromBeginning: true })
await consumer.run({ eachBatchAutoResolve: false, autoCommit: false, eachBatch: bill })
