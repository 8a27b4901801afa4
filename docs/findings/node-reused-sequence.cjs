// Shows that kafkajs 2.2.4 loses a committed record, without Kafka: `node node-reused-sequence.cjs [after|instead|lost]`.
//
// The producer sends one record in each of two transactions. Only the broker is a fake. What it does with the first Produce:
//   after    it appends the batch, and answers an error that is not retriable
//   instead  it appends nothing, and answers the same error (the control)
//   lost     it appends the batch, and its connection closes; all retries of this Produce find no connection (9 s)
//
// As a real broker, it takes a batch for a duplicate if producer id, epoch and sequence numbers are those of the last batch.

const createProducer = require('kafkajs/src/producer')
const { KafkaJSProtocolError, KafkaJSConnectionClosedError } = require('kafkajs/src/errors')

const mode = process.argv[2] ?? 'after'
const unknown = { type: 'UNKNOWN_SERVER_ERROR', code: -1, retriable: false, message: 'UNKNOWN_SERVER_ERROR' }
const outOfOrder = {
  type: 'OUT_OF_ORDER_SEQUENCE_NUMBER',
  code: 45,
  retriable: false,
  message: 'OUT_OF_ORDER_SEQUENCE_NUMBER'
}
const logger = { debug() {}, info() {}, warn() {}, error() {}, namespace: () => logger }

const log = [] // of one partition
let last = { sequence: -1 }
let isDown = false

function append({ producerId, producerEpoch, topicData }) {
  const [{ firstSequence, messages }] = topicData[0].partitions
  const text = `Produce: producer ${producerId}, epoch ${producerEpoch}, sequence ${firstSequence}, ${messages[0].value}`
  if (firstSequence === last.sequence) {
    console.log(`  ${text}: a duplicate of offset ${last.offset}, not appended`)
    return last.offset
  }
  if (firstSequence !== last.sequence + 1) throw new KafkaJSProtocolError(outOfOrder)
  last = { sequence: firstSequence, offset: log.length }
  log.push(messages[0].value)
  console.log(`  ${text}: appended at offset ${last.offset}`)
  return last.offset
}

let produces = 0
const broker = {
  nodeId: 1,
  initProducerId: async () => ({ producerId: 7, producerEpoch: 0 }),
  addPartitionsToTxn: async () => {},
  async endTxn({ transactionResult }) {
    isDown = false
    log.push(transactionResult ? 'commit marker' : 'abort marker')
  },
  async produce(request) {
    if (isDown) throw new KafkaJSConnectionClosedError('Closed connection')
    produces += 1
    if (produces > 1) return answer(append(request))
    if (mode !== 'instead') append(request)
    isDown = mode === 'lost'
    if (isDown) throw new KafkaJSConnectionClosedError('Closed connection')
    throw new KafkaJSProtocolError(unknown)
  }
}
const answer = offset => ({ topics: [{ topicName: 'out', partitions: [{ partition: 0, baseOffset: String(offset) }] }] })

const cluster = {
  isConnected: () => true,
  async connect() {},
  async refreshMetadata() {},
  async refreshMetadataIfNecessary() {},
  async addMultipleTargetTopics() {},
  removeBroker() {},
  findControllerBroker: async () => broker,
  findGroupCoordinator: async () => broker,
  findBroker: async () => broker,
  findTopicPartitionMetadata: () => [{ partitionId: 0 }],
  findLeaderForPartitions: () => ({ 1: [0] })
}

const producer = createProducer({
  cluster,
  logger,
  retry: {}, // as `kafka.producer()` passes it without an option: 5 retries
  idempotent: true,
  transactionalId: 'shop-1',
  createPartitioner: () => () => 0
})

async function transact(name) {
  console.log(`${name} transaction`)
  const transaction = await producer.transaction()
  try {
    const [{ baseOffset }] = await transaction.send({ topic: 'out', messages: [{ value: `${name} record` }] })
    console.log(`  send() returned offset ${baseOffset}`)
    await transaction.commit()
    console.log('  commit() returned')
  } catch (error) {
    console.log(`  send() failed: ${error.name}: ${error.message}`)
    await transaction.abort()
    console.log('  abort() returned')
  }
}

producer
  .connect()
  .then(() => transact('first'))
  .then(() => transact('second'))
  .then(() => console.log(`log: ${log.join(', ')}`))
