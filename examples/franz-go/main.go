// Bills purchases: one transaction has the invoices, the shipments and the offsets of a batch.
//
// This is a plain program with franz-go, written as its documentation says. It knows nothing of Fencepost.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

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

func main() {
	brokers := flag.String("brokers", "", "HOST:PORT,...")
	id := flag.String("transactional-id", "", "the transactional id")
	group := flag.String("group", "billing-franz-go", "the consumer group")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ClientID(*id),
		kgo.TransactionalID(*id),
		kgo.TransactionTimeout(30*time.Second),
		kgo.ConsumerGroup(*group),
		kgo.SessionTimeout(6*time.Second),
		kgo.ConsumeTopics("purchases"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for ctx.Err() == nil {
		bill(ctx, session)
	}
}

// bill bills the purchases of one poll. It ends the program after an error of the session, as the documentation demands.
func bill(ctx context.Context, session *kgo.GroupTransactSession) {
	fetches := session.PollRecords(ctx, 50)
	if fetches.NumRecords() == 0 {
		return
	}
	if err := session.Begin(); err != nil {
		log.Fatalf("begin: %v", err)
	}
	sent := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		var p purchase
		if err := json.Unmarshal(record.Value, &p); err != nil {
			log.Fatal(err)
		}
		session.Produce(context.Background(), output("invoices", record.Key, invoice{p.ID, p.Pieces * p.Price}), sent.Promise())
		session.Produce(context.Background(), output("shipments", record.Key, shipment{p.ID, p.Pieces}), sent.Promise())
	})
	committed, err := session.End(context.Background(), kgo.TransactionEndTry(sent.Err() == nil))
	if err != nil {
		log.Fatalf("end: %v", err)
	}
	if !committed {
		log.Print("a transaction was aborted, and its purchases are read again")
	}
}

func output(topic string, key []byte, value any) *kgo.Record {
	body, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return &kgo.Record{Topic: topic, Key: key, Value: body}
}
