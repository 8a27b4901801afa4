// Bills purchases with the defaults of its client: no transactions, and the client commits offsets as soon as it has
// read a batch, even if the purchases in it are not billed yet.

import { parseArgs } from 'node:util'
import { Consumer, Producer } from '@platformatic/kafka'

const { values: options } = parseArgs({
  options: {
    brokers: { type: 'string' },
    group: { type: 'string', default: 'billing-node' }
  }
})
const common = { clientId: 'billing', bootstrapBrokers: options.brokers.split(',') }

const producer = new Producer(common)
const consumer = new Consumer({ ...common, groupId: options.group, sessionTimeout: 6000, rebalanceTimeout: 10_000 })
const stream = await consumer.consume({
  topics: ['purchases'],
  mode: 'committed',
  fallbackMode: 'earliest',
  maxWaitTime: 500
})

process.on('SIGTERM', () => stream.close())
process.on('SIGINT', () => stream.close())

for await (const { key, value } of stream) {
  const purchase = JSON.parse(value)
  const invoice = { purchase_id: purchase.purchase_id, amount: purchase.pieces * purchase.price }
  const shipment = { purchase_id: purchase.purchase_id, pieces: purchase.pieces }
  await producer.send({
    messages: [
      { topic: 'invoices', key, value: Buffer.from(JSON.stringify(invoice)) },
      { topic: 'shipments', key, value: Buffer.from(JSON.stringify(shipment)) }
    ]
  })
}

await consumer.close(true)
await producer.close()
