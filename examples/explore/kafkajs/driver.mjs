// kafkajs as a driver of `fencepost explore`: it answers each line of JSON with a line.
//
// The client loads the metadata of a topic at its first record.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs
const { version } = JSON.parse(readFileSync(new URL('node_modules/kafkajs/package.json', import.meta.url)))
let producer, transaction

async function init(command) {
  if (producer) await Promise.race([producer.disconnect(), sleep(1000)])
  const kafka = new Kafka({
    clientId: command.transactional_id,
    brokers: command.bootstrap.split(','),
    logLevel: logLevel.NOTHING
  })
  producer = kafka.producer({
    transactionalId: command.transactional_id,
    transactionTimeout: command.transaction_timeout_ms,
    idempotent: true,
    maxInFlightRequests: 1
  })
  await producer.connect()
  const first = await producer.transaction() // the first one sends InitProducerId
  await first.abort()
  return { version }
}

async function send({ records }) {
  const topicMessages = new Map()
  const places = records.map(({ topic, partition, key, value, headers }) => {
    const messages = topicMessages.get(topic) ?? topicMessages.set(topic, []).get(topic)
    const place = messages.filter(message => message.partition === partition).length
    messages.push({ partition, key, value, headers: Object.fromEntries(headers) })
    return { topic, partition, place }
  })
  const batches = await transaction.sendBatch({
    topicMessages: [...topicMessages].map(([topic, messages]) => ({ topic, messages }))
  })
  return {
    offsets: places.map(({ topic, partition, place }) => {
      const batch = batches.find(each => each.topicName === topic && each.partition === partition)
      return batch?.baseOffset === undefined ? null : Number(batch.baseOffset) + place
    })
  }
}

async function sendOffsets({ group, offsets }) {
  await transaction.sendOffsets({
    consumerGroupId: group,
    topics: offsets.map(({ topic, partition, offset, metadata }) => ({
      topic,
      partitions: [{ partition, offset: String(offset), metadata }]
    }))
  })
}

const carryOut = {
  init,
  begin: async () => {
    transaction = await producer.transaction()
  },
  send,
  offsets: sendOffsets,
  commit: () => transaction.commit(),
  abort: () => transaction.abort()
}

// As the documentation says: abort after each error. If that fails too, use a new producer.
function meaning(action, error) {
  const type = error.type ?? error.cause?.type
  if (type === 'PRODUCER_FENCED' || type === 'INVALID_PRODUCER_EPOCH') return 'fenced'
  return ['init', 'begin', 'abort'].includes(action) ? 'fatal' : 'abortable'
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  let answer
  try {
    answer = { ok: true, ...(await carryOut[command.do](command)) }
  } catch (error) {
    answer = { error: `${error.name}: ${error.message}`, meaning: meaning(command.do, error) }
  }
  console.log(JSON.stringify(answer))
}
process.exit(0)
