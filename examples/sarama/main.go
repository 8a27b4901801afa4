// Bills purchases: one transaction has the invoices, the shipments and the offsets of a batch.
//
// This is a plain program with sarama. It knows nothing of Fencepost. With --group-id-only it passes the offsets with the
// id of the group alone, so that the broker does not know from which member they are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

const mostPurchases = 100

type purchase struct {
	ID     int `json:"purchase_id"`
	Pieces int `json:"pieces"`
	Price  int `json:"price"`
}

type invoice struct {
	ID     int `json:"purchase_id"`
	Amount int `json:"amount"`
}

type shipment struct {
	ID     int `json:"purchase_id"`
	Pieces int `json:"pieces"`
}

// biller is the handler of the group. The claims of all partitions share its producer, so they take turns.
type biller struct {
	turn        sync.Mutex
	producer    sarama.SyncProducer
	group       string
	groupIDOnly bool
}

func main() {
	brokers := flag.String("brokers", "", "HOST:PORT,...")
	id := flag.String("transactional-id", "", "the transactional id")
	group := flag.String("group", "billing-sarama", "the consumer group")
	groupIDOnly := flag.Bool("group-id-only", false, "pass the offsets with the id of the group alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	addresses := strings.Split(*brokers, ",")
	producer, err := sarama.NewSyncProducer(addresses, settings(*id))
	if err != nil {
		log.Fatalf("producer: %v", err)
	}
	defer producer.Close()
	consumer, err := sarama.NewConsumerGroup(addresses, *group, settings(*id))
	if err != nil {
		log.Fatalf("consumer: %v", err)
	}
	defer consumer.Close()
	handler := &biller{producer: producer, group: *group, groupIDOnly: *groupIDOnly}
	for ctx.Err() == nil { // each session begins at the committed offsets
		err := consumer.Consume(ctx, []string{"purchases"}, handler)
		if err != nil && !errors.Is(err, context.Canceled) {
			log.Printf("session: %v", err)
			time.Sleep(500 * time.Millisecond)
		}
	}
}

func settings(id string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.ClientID = id
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = 60 * time.Second
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = time.Second
	return config
}

// Setup is called at the begin of a session.
func (b *biller) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup is called at the end of a session.
func (b *biller) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim bills the purchases of one partition until the session ends. If a transaction is aborted, it returns, and
// this ends the session.
func (b *biller) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case first, open := <-claim.Messages():
			if !open {
				return nil
			}
			if err := b.bill(session, batchOf(first, claim.Messages())); err != nil {
				log.Printf("a transaction was aborted, and its purchases are read again: %v", err)
				return err
			}
		}
	}
}

// batchOf returns the first purchase and those that have already been fetched.
func batchOf(first *sarama.ConsumerMessage, messages <-chan *sarama.ConsumerMessage) []*sarama.ConsumerMessage {
	batch := []*sarama.ConsumerMessage{first}
	for len(batch) < mostPurchases {
		select {
		case message, open := <-messages:
			if !open {
				return batch
			}
			batch = append(batch, message)
		default:
			return batch
		}
	}
	return batch
}

// bill bills a batch in one transaction. It returns an error if the transaction was aborted, and ends the program if the
// producer cannot be used any more.
func (b *biller) bill(session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	if err := b.producer.BeginTxn(); err != nil {
		log.Fatalf("begin: %v", err)
	}
	err := b.send(batch)
	if err == nil {
		err = b.addOffsets(session, batch)
	}
	if err == nil {
		err = b.producer.CommitTxn()
	}
	if err == nil {
		return nil
	}
	if b.producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		log.Fatalf("the producer cannot go on: %v", err)
	}
	if failure := b.producer.AbortTxn(); failure != nil {
		log.Fatalf("abort: %v, after: %v", failure, err)
	}
	return err
}

// send waits for the acknowledgement of ten purchases before it sends the next ones.
func (b *biller) send(batch []*sarama.ConsumerMessage) error {
	for messages := range slices.Chunk(batch, 10) {
		var outputs []*sarama.ProducerMessage
		for _, message := range messages {
			var p purchase
			if err := json.Unmarshal(message.Value, &p); err != nil {
				log.Fatal(err)
			}
			outputs = append(outputs,
				output("invoices", message.Key, invoice{p.ID, p.Pieces * p.Price}),
				output("shipments", message.Key, shipment{p.ID, p.Pieces}))
		}
		if err := b.producer.SendMessages(outputs); err != nil {
			return err
		}
	}
	return nil
}

func (b *biller) addOffsets(session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage) error {
	last := batch[len(batch)-1]
	offsets := map[string][]*sarama.PartitionOffsetMetadata{
		last.Topic: {{Partition: last.Partition, Offset: last.Offset + 1}},
	}
	if b.groupIDOnly {
		return b.producer.AddOffsetsToTxn(offsets, b.group)
	}
	metadata := sarama.NewConsumerGroupMetadataFromSession(session, b.group, nil)
	return b.producer.AddOffsetsToTxnWithGroupMetadata(offsets, metadata)
}

func output(topic string, key []byte, value any) *sarama.ProducerMessage {
	body, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(body)}
}
