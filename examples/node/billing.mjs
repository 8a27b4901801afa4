// Bills purchases exactly once: one transaction has the invoices, the shipments and the offsets of a batch.
//
// This is a plain program with @platformatic/kafka. It knows nothing of Fencepost.

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Consumer, Producer, offsetFetchV9 } from '@platformatic/kafka'

const { values: options } = parseArgs({
  options: {
    brokers: { type: 'string' },
    'transactional-id': { type: 'string' },
    group: { type: 'string', default: 'billing-node' }
  }
})
const transactionalId = options['transactional-id']
const common = { clientId: transactionalId, bootstrapBrokers: options.brokers.split(','), retries: 30, retryDelay: 100 }

let running = true
process.on('SIGTERM', () => (running = false))
process.on('SIGINT', () => (running = false))

const hasApiId = (error, ...ids) => ids.some(id => error.findBy?.('apiId', id))
const isFenced = error => hasApiId(error, 'PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING')
const isOutOfGroup = error => hasApiId(error, 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID', 'REBALANCE_IN_PROGRESS')
const log = text => console.error(`${new Date().toISOString()} ${transactionalId}: ${text}`)

function explain(error) {
  const parts = (error.errors ?? []).map(explain)
  return parts.length ? `${error.message} [${[...new Set(parts)].join('; ')}]` : (error.apiId ?? error.message)
}

// One membership in the group and one producer. After an error of a broker, the program ends the session and starts a
// new one, because the client finds a coordinator only once, and stops its heartbeats after one has failed.
class Session {
  joined = null // the last answer of the group: generationId, memberId, assignments
  fatalError = null // the error that ends the session

  constructor() {
    // The client also uses `timeout` as the transaction timeout.
    this.producer = new Producer({ ...common, transactionalId, idempotent: true, timeout: 30_000 })
    this.consumer = new Consumer({
      ...common,
      groupId: options.group,
      autocommit: false,
      sessionTimeout: 6000,
      rebalanceTimeout: 10_000,
      heartbeatInterval: 1000,
      maxWaitTime: 500
    })
    this.consumer.on('consumer:group:join', joined => (this.joined = joined))
    this.consumer.on('consumer:heartbeat:error', ({ error }) => (this.fatalError = error))
    this.consumer.on('error', error => (this.fatalError = error))
  }

  async start() {
    // Without -1 the client sends producer id 0 and epoch 0, and is fenced if its transactional id is already known.
    const first = await this.producer.beginTransaction({ producerId: -1n, producerEpoch: -1 })
    await first.cancel() // fences earlier producers and aborts their transactions, like initTransactions in Java
    this.consumer.topics.track('purchases')
    await this.consumer.joinGroup({})
  }

  async run() {
    await this.start()
    while (running) {
      if (this.fatalError) throw this.fatalError
      if (this.consumer.generationId !== this.joined.generationId) {
        await sleep(50) // the consumer is joining again
        continue
      }
      await this.bill(this.joined)
    }
  }

  // Bill the purchases of our partitions in one generation of the group, from the committed offsets on.
  async bill(joined) {
    const stream = await this.consumer.consume({
      topics: ['purchases'],
      mode: 'manual',
      offsets: await this.committed(joined),
      fallbackMode: 'earliest'
    })
    let failed = null
    let wake = () => {}
    stream.on('readable', () => wake())
    stream.on('error', error => (failed = error))
    try {
      while (running && this.joined === joined) {
        if (failed ?? this.fatalError) throw failed ?? this.fatalError
        const batch = []
        for (let message; batch.length < 50 && (message = stream.read()) !== null; ) batch.push(message)
        // If a fetch was in progress during a rebalance, its messages have the new generation. Do not use them.
        if (batch.some(message => message.metadata.consumer.generationId !== joined.generationId)) return
        if (batch.length) {
          if (!(await this.transaction(batch))) return
        } else {
          await Promise.race([new Promise(resolve => (wake = resolve)), sleep(200)])
        }
      }
    } finally {
      stream.destroy() // and drop the messages that it has read in advance
    }
  }

  // The client's method does not request stable offsets: it would not wait for offsets that are about to be committed.
  async committed({ assignments }) {
    const topics = assignments.map(({ topic, partitions }) => ({ name: topic, partitionIndexes: partitions }))
    if (!topics.length) return []
    const coordinator = await this.consumer.findGroupCoordinator()
    const connection = (await this.consumer.connectToBrokers([coordinator])).get(coordinator)
    if (!connection) throw new Error(`the coordinator of the group, broker ${coordinator}, cannot be reached`)
    const groups = [{ groupId: options.group, memberId: null, memberEpoch: -1, topics }]
    for (;;) {
      try {
        const response = await offsetFetchV9.api.async(connection, groups, true)
        return response.groups[0].topics.flatMap(({ name, partitions }) =>
          partitions
            .filter(({ committedOffset }) => committedOffset >= 0n)
            .map(({ partitionIndex, committedOffset }) => ({
              topic: name,
              partition: partitionIndex,
              offset: committedOffset
            }))
        )
      } catch (error) {
        if (!hasApiId(error, 'UNSTABLE_OFFSET_COMMIT')) throw error
        await sleep(100)
      }
    }
  }

  // Return whether the transaction is committed. If not, the group has gone on without us: open a new stream.
  async transaction(batch) {
    const messages = batch.flatMap(({ key, value }) => {
      const purchase = JSON.parse(value)
      const invoice = { purchase_id: purchase.purchase_id, amount: purchase.pieces * purchase.price }
      const shipment = { purchase_id: purchase.purchase_id, pieces: purchase.pieces }
      return [
        { topic: 'invoices', key, value: Buffer.from(JSON.stringify(invoice)) },
        { topic: 'shipments', key, value: Buffer.from(JSON.stringify(shipment)) }
      ]
    })
    const last = new Map(batch.map(message => [message.partition, message]))
    const transaction = await this.producer.beginTransaction()
    try {
      // Await each call: of two calls at the same time the client carries out only the first, and reports success for both.
      await transaction.send({ messages })
      await transaction.addConsumer(this.consumer)
      for (const message of last.values()) await transaction.addOffset(message)
      await transaction.commit()
      return true
    } catch (error) {
      if (!isOutOfGroup(error)) throw error
      log(`aborts a transaction: ${explain(error)}`)
      await transaction.abort()
      await sleep(200)
      return false
    }
  }

  async close() {
    const leaving = Promise.allSettled([this.consumer.close(true), this.producer.close(true)])
    await Promise.race([leaving, sleep(3000)])
  }
}

while (running) {
  const session = new Session()
  try {
    await session.run()
  } catch (error) {
    if (isFenced(error)) {
      log(`ends, because it was fenced: ${explain(error)}`)
      process.exit(1)
    }
    log(`starts a new session: ${explain(error)}`)
  }
  await session.close()
  if (running) await sleep(300)
}
process.exit(0)
