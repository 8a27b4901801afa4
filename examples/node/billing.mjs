// Bills purchases, exactly once: an invoice and a shipment for each, and the offset, in one transaction.
//
// A plain program with @platformatic/kafka. It knows nothing of Fencepost.

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
const me = options['transactional-id']
const common = { clientId: me, bootstrapBrokers: options.brokers.split(','), retries: 30, retryDelay: 100 }

let running = true
process.on('SIGTERM', () => (running = false))
process.on('SIGINT', () => (running = false))

const is = (error, ...ids) => ids.some(id => error.findBy?.('apiId', id))
const fenced = error => is(error, 'PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING')
const groupWentOn = error => is(error, 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID', 'REBALANCE_IN_PROGRESS')
const say = text => console.error(`${new Date().toISOString()} ${me}: ${text}`)

function explain(error) {
  const parts = (error.errors ?? []).map(explain)
  return parts.length ? `${error.message} [${[...new Set(parts)].join('; ')}]` : (error.apiId ?? error.message)
}

// One membership in the group and one producer. What goes wrong with its brokers ends it, and a new one begins:
// the client looks for a coordinator only once, and stops its heartbeats after one that fails.
class Session {
  joined = null // the last that the group said: generationId, memberId, assignments
  broken = null // the error that ends the session

  constructor() {
    // The client asks the coordinator for a transaction timeout of this same `timeout`.
    this.producer = new Producer({ ...common, transactionalId: me, idempotent: true, timeout: 30_000 })
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
    this.consumer.on('consumer:heartbeat:error', ({ error }) => (this.broken = error))
    this.consumer.on('error', error => (this.broken = error))
  }

  async start() {
    // Without -1 the client claims to be producer 0, epoch 0, and is fenced wherever its id is known already.
    const first = await this.producer.beginTransaction({ producerId: -1n, producerEpoch: -1 })
    await first.cancel() // only here: it fences and aborts what came before, as initTransactions does elsewhere
    this.consumer.topics.track('purchases')
    await this.consumer.joinGroup({})
  }

  async run() {
    await this.start()
    while (running) {
      if (this.broken) throw this.broken
      if (this.consumer.generationId !== this.joined.generationId) {
        await sleep(50) // it is joining again
        continue
      }
      await this.bill(this.joined)
    }
  }

  // Bill what one generation of the group gives us, from the committed offsets on.
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
        if (failed ?? this.broken) throw failed ?? this.broken
        const batch = []
        for (let message; batch.length < 50 && (message = stream.read()) !== null; ) batch.push(message)
        // A fetch that was under way while the group went on is marked with the new generation: it is not ours.
        if (batch.some(message => message.metadata.consumer.generationId !== joined.generationId)) return
        if (batch.length) {
          if (!(await this.transaction(batch))) return
        } else {
          await Promise.race([new Promise(resolve => (wake = resolve)), sleep(200)])
        }
      }
    } finally {
      stream.destroy() // with all that it has read ahead
    }
  }

  // The consumer's own way does not ask for stable offsets: it would not see those that are about to be committed.
  async committed({ assignments }) {
    const topics = assignments.map(({ topic, partitions }) => ({ name: topic, partitionIndexes: partitions }))
    if (!topics.length) return []
    const coordinator = await this.consumer.findGroupCoordinator()
    const connection = (await this.consumer.connectToBrokers([coordinator])).get(coordinator)
    if (!connection) throw new Error(`the coordinator of the group, broker ${coordinator}, is gone`)
    const asked = [{ groupId: options.group, memberId: null, memberEpoch: -1, topics }]
    for (;;) {
      try {
        const { groups } = await offsetFetchV9.api.async(connection, asked, true)
        return groups[0].topics.flatMap(({ name, partitions }) =>
          partitions
            .filter(({ committedOffset }) => committedOffset >= 0n)
            .map(({ partitionIndex, committedOffset }) => ({
              topic: name,
              partition: partitionIndex,
              offset: committedOffset
            }))
        )
      } catch (error) {
        if (!is(error, 'UNSTABLE_OFFSET_COMMIT')) throw error
        await sleep(100)
      }
    }
  }

  // Whether it is committed; if not, the group has gone on, and the stream must begin again.
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
      // One after the other: of two calls at once the client sends only the first, and says that both are done.
      await transaction.send({ messages })
      await transaction.addConsumer(this.consumer)
      for (const message of last.values()) await transaction.addOffset(message)
      await transaction.commit()
      return true
    } catch (error) {
      if (!groupWentOn(error)) throw error
      say(`aborts: ${explain(error)}`)
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
    if (fenced(error)) {
      say(`gives up, it is fenced: ${explain(error)}`)
      process.exit(1)
    }
    say(`begins again: ${explain(error)}`)
  }
  await session.close()
  if (running) await sleep(300)
}
process.exit(0)
