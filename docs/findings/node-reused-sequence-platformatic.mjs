// Shows that @platformatic/kafka 1.35.0 loses a committed record, without Kafka:
// `node node-reused-sequence-platformatic.mjs [after|instead]`. See node-reused-sequence.cjs, which does the same for kafkajs.
//
// Only the broker is a fake: the producer gets its requests (APIs), connections and metadata from this file.

import { Producer, ResponseError } from '@platformatic/kafka'

const library = import.meta.resolve('@platformatic/kafka')
const { kGetApi, kGetBootstrapConnection, kGetConnection, kMetadata } = await import(
  new URL('clients/base/base.js', library)
)
const mode = process.argv[2] ?? 'after'
const failure = code => new ResponseError(0, 0, { '/': [code, 'refused'] }, {})

const log = [] // of one partition
let last = { sequence: -1 }
let produces = 0

function append([message], { producerId, producerEpoch, sequences }) {
  const sequence = sequences.getWithDefault('out:0', 0)
  const text = `Produce: producer ${producerId}, epoch ${producerEpoch}, sequence ${sequence}, ${message.value}`
  if (sequence === last.sequence) {
    console.log(`  ${text}: a duplicate of offset ${last.offset}, not appended`)
    return last.offset
  }
  if (sequence !== last.sequence + 1) {
    console.log(`  ${text}: OUT_OF_ORDER_SEQUENCE_NUMBER`)
    throw failure(45)
  }
  last = { sequence, offset: log.length }
  log.push(message.value)
  console.log(`  ${text}: appended at offset ${last.offset}`)
  return last.offset
}

function produce(messages, options) {
  produces += 1
  if (produces === 1) {
    if (mode === 'after') append(messages, options)
    throw failure(-1) // UNKNOWN_SERVER_ERROR
  }
  const baseOffset = BigInt(append(messages, options))
  return { responses: [{ name: 'out', partitionResponses: [{ index: 0, baseOffset }] }] }
}

const apis = {
  FindCoordinator: () => ({ coordinators: [{ key: 'shop-1', nodeId: 1 }] }),
  InitProducerId: () => ({ producerId: 7n, producerEpoch: 0 }),
  AddPartitionsToTxn: () => ({}),
  Produce: (acks, timeout, messages, options) => produce(messages, options),
  EndTxn: (id, producerId, producerEpoch, commit) => log.push(commit ? 'commit marker' : 'abort marker')
}

class FakedProducer extends Producer {
  [kGetApi](name, callback) {
    callback(null, (connection, ...parameters) => {
      const answered = parameters.pop()
      let response
      try {
        response = apis[name](...parameters)
      } catch (error) {
        answered(error)
        return
      }
      answered(null, response)
    })
  }

  [kGetConnection](broker, callback) {
    callback(null, {})
  }

  [kGetBootstrapConnection](callback) {
    callback(null, {})
  }

  [kMetadata](options, callback) {
    const topic = { partitionsCount: 1, partitions: [{ leader: 1 }] }
    callback(null, { brokers: new Map([[1, {}]]), topics: new Map([['out', topic]]) })
  }
}

const producer = new FakedProducer({
  clientId: 'shop-1',
  bootstrapBrokers: ['localhost:9092'],
  transactionalId: 'shop-1',
  idempotent: true
})

async function transact(name) {
  console.log(`${name} transaction`)
  const transaction = await producer.beginTransaction()
  try {
    const message = { topic: 'out', partition: 0, value: Buffer.from(`${name} record`) }
    const { offsets } = await transaction.send({ messages: [message] })
    console.log(`  send() returned offset ${offsets[0].offset}`)
    await transaction.commit()
    console.log('  commit() returned')
  } catch (error) {
    console.log(`  send() failed: ${error.message}`)
    await transaction.abort()
    console.log('  abort() returned')
  }
}

await transact('first')
await transact('second')
console.log(`log: ${log.join(', ')}`)
await producer.close()
