// Shows two bugs of the transactional producer of kafkajs 2.2.4, without Kafka: `node kafkajs-abort.cjs [abort|retry]`.
//
// The producer sends one record to each of two partitions, whose leaders are brokers 1 and 2. The first AddPartitionsToTxn
// fails, and the response to the second one takes 200 ms. Only the brokers are fakes.

const createEosManager = require('kafkajs/src/producer/eosManager')
const createSendMessages = require('kafkajs/src/producer/sendMessages')
const createRetry = require('kafkajs/src/retry')
const { KafkaJSProtocolError } = require('kafkajs/src/errors')

const errors = {
  abort: { type: 'TOPIC_AUTHORIZATION_FAILED', code: 29, retriable: false, message: 'not authorized' },
  retry: { type: 'NOT_COORDINATOR_FOR_GROUP', code: 16, retriable: true, message: 'not the coordinator' }
}
const error = errors[process.argv[2] ?? 'abort']
const logger = { debug() {}, info() {}, warn() {}, error() {} }

let requests = 0
const coordinator = {
  async initProducerId() {
    return { producerId: 7, producerEpoch: 0 }
  },
  async addPartitionsToTxn({ topics }) {
    const request = ++requests
    console.log(`  AddPartitionsToTxn ${request}: partition ${topics[0].partitions}`)
    if (request === 1) throw new KafkaJSProtocolError(error)
    if (request === 2) await new Promise(resolve => setTimeout(resolve, 200))
    console.log(`  AddPartitionsToTxn ${request}: ok`)
  },
  async endTxn({ transactionResult }) {
    console.log(`  EndTxn: ${transactionResult ? 'commit' : 'abort'}`)
  }
}

const leader = nodeId => ({
  nodeId,
  async produce({ topicData: [{ partitions }] }) {
    for (const { partition, firstSequence, messages } of partitions)
      console.log(`  Produce: partition ${partition}, sequence ${firstSequence}, ${messages.map(({ value }) => value)}`)
    return { topics: [] }
  }
})
const leaders = { 1: leader(1), 2: leader(2) }

const cluster = {
  retry: { retries: 5, initialRetryTime: 50 },
  isConnected: () => true,
  async refreshMetadata() {},
  async refreshMetadataIfNecessary() {},
  async addMultipleTargetTopics() {},
  async findGroupCoordinator() {
    return coordinator
  },
  async findBroker({ nodeId }) {
    return leaders[nodeId]
  },
  findTopicPartitionMetadata: () => [{ partitionId: 0 }, { partitionId: 1 }],
  findLeaderForPartitions: () => ({ 1: [0], 2: [1] })
}

const eosManager = createEosManager({ logger, cluster, transactional: true, transactionalId: 'shop-1' })
const sendMessages = createSendMessages({
  logger,
  cluster,
  eosManager,
  retrier: createRetry(cluster.retry),
  partitioner: ({ message }) => message.partition
})

async function transact(name) {
  console.log(`${name} transaction`)
  eosManager.beginTransaction()
  const messages = [0, 1].map(partition => ({ partition, value: `${name} record of partition ${partition}` }))
  try {
    await sendMessages({ acks: -1, topicMessages: [{ topic: 'out', messages }] })
    await eosManager.commit()
    console.log('  commit() returned')
  } catch (error) {
    console.log(`  send() failed: ${error.message}`)
    await eosManager.abort()
    console.log('  abort() returned')
  }
}

eosManager
  .initProducerId()
  .then(() => transact('first'))
  .then(() => transact('second'))
