// @platformatic/kafka as a driver of `fencepost explore`: it answers each line of JSON with a line.
//
// The client adds an offset to a transaction only for a message that a consumer has read, and without metadata. So this
// program passes it a message of a consumer that is no member of the group.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Consumer, Producer } from '@platformatic/kafka'

const manifest = new URL('node_modules/@platformatic/kafka/package.json', import.meta.url)
const { version } = JSON.parse(readFileSync(manifest))
const isFenced = error =>
  ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING'].some(id => error.findBy?.('apiId', id))
let common, producer, transaction, consumer

async function init(command) {
  const clients = [producer, consumer].filter(Boolean).map(client => client.close(true))
  await Promise.race([Promise.allSettled(clients), sleep(1000)])
  common = {
    clientId: command.transactional_id,
    bootstrapBrokers: command.bootstrap.split(','),
    retries: 30,
    retryDelay: 100
  }
  consumer = undefined
  producer = new Producer({
    ...common,
    transactionalId: command.transactional_id,
    idempotent: true,
    timeout: command.transaction_timeout_ms // of requests, and of transactions
  })
  await producer.metadata({ topics: command.topics })
  // Without -1 the client sends producer id 0 and epoch 0, and is fenced if its transactional id is already known.
  const first = await producer.beginTransaction({ producerId: -1n, producerEpoch: -1 })
  await first.cancel()
  return { version }
}

async function send({ records }) {
  const messages = records.map(({ topic, partition, key, value, headers }) => ({
    topic,
    partition,
    key: Buffer.from(key),
    value: Buffer.from(value),
    headers: new Map(headers.map(pair => pair.map(text => Buffer.from(text))))
  }))
  const { offsets = [] } = await transaction.send({ messages })
  const next = new Map(offsets.map(({ topic, partition, offset }) => [`${topic}/${partition}`, Number(offset)]))
  return {
    offsets: records.map(({ topic, partition }) => {
      const offset = next.get(`${topic}/${partition}`)
      if (offset === undefined) return null
      next.set(`${topic}/${partition}`, offset + 1)
      return offset
    })
  }
}

async function sendOffsets({ group, offsets }) {
  consumer ??= new Consumer({ ...common, groupId: group, autocommit: false })
  const metadata = {
    consumer: { groupId: group, generationId: -1, memberId: '', coordinatorId: await consumer.findGroupCoordinator() }
  }
  await transaction.addConsumer(consumer)
  for (const { topic, partition, offset } of offsets) {
    await transaction.addOffset({ topic, partition, offset: BigInt(offset - 1), metadata }) // it adds 1
  }
}

const carryOut = {
  init,
  begin: async () => {
    transaction = await producer.beginTransaction()
  },
  send,
  offsets: sendOffsets,
  commit: () => transaction.commit(),
  abort: () => transaction.abort()
}

// Abort after each error. If that fails too, use a new producer.
function meaning(action, error) {
  if (isFenced(error)) return 'fenced'
  return ['init', 'begin', 'abort'].includes(action) ? 'fatal' : 'abortable'
}

function explain(error) {
  const parts = (error.errors ?? []).map(explain)
  return parts.length ? `${error.message} [${[...new Set(parts)].join('; ')}]` : (error.apiId ?? error.message)
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  let answer
  try {
    answer = { ok: true, ...(await carryOut[command.do](command)) }
  } catch (error) {
    answer = { error: explain(error), meaning: meaning(command.do, error) }
  }
  console.log(JSON.stringify(answer))
}
process.exit(0)
