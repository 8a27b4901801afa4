// sarama as a driver of `fencepost explore`: it answers each line of JSON with a line.
//
// The client sends the offsets of a transaction when it commits.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type command struct {
	Do                   string
	Bootstrap            string
	TransactionalID      string `json:"transactional_id"`
	TransactionTimeoutMs int    `json:"transaction_timeout_ms"`
	Topics               []string
	Records              []struct {
		Topic, Key, Value string
		Partition         int32
		Headers           [][2]string
	}
	Group   string
	Offsets []struct {
		Topic     string
		Partition int32
		Offset    int64
		Metadata  string
	}
}

type answer struct {
	OK      bool    `json:"ok,omitempty"`
	Version string  `json:"version,omitempty"`
	Offsets []int64 `json:"offsets,omitempty"`
	Error   string  `json:"error,omitempty"`
	Meaning string  `json:"meaning,omitempty"`
}

var (
	client   sarama.Client
	producer sarama.SyncProducer
)

func initialize(c command) (err error) {
	if client != nil {
		closeWithin(time.Second)
	}
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = c.TransactionalID
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = c.TransactionalID
	config.Producer.Transaction.Timeout = time.Duration(c.TransactionTimeoutMs) * time.Millisecond
	if client, err = sarama.NewClient(strings.Split(c.Bootstrap, ","), config); err != nil {
		return err
	}
	if err = client.RefreshMetadata(c.Topics...); err != nil {
		return err
	}
	producer, err = sarama.NewSyncProducerFromClient(client)
	return err
}

// closeWithin closes the producer, which may wait for its brokers, in the background.
func closeWithin(limit time.Duration) {
	closed := make(chan struct{})
	go func(client sarama.Client, producer sarama.SyncProducer) {
		if producer != nil {
			producer.Close()
		}
		client.Close()
		close(closed)
	}(client, producer)
	select {
	case <-closed:
	case <-time.After(limit):
	}
	client, producer = nil, nil
}

func send(c command) (offsets []int64, err error) {
	var messages []*sarama.ProducerMessage
	for _, r := range c.Records {
		message := &sarama.ProducerMessage{
			Topic: r.Topic, Partition: r.Partition,
			Key: sarama.StringEncoder(r.Key), Value: sarama.StringEncoder(r.Value),
		}
		for _, header := range r.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
		}
		messages = append(messages, message)
	}
	err = producer.SendMessages(messages)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		err = failed[0]
	}
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets, err
}

func addOffsets(c command) error {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, o := range c.Offsets {
		offset := &sarama.PartitionOffsetMetadata{Partition: o.Partition, Offset: o.Offset, Metadata: &o.Metadata}
		offsets[o.Topic] = append(offsets[o.Topic], offset)
	}
	return producer.AddOffsetsToTxn(offsets, c.Group)
}

func carryOut(c command) (a answer, err error) {
	switch c.Do {
	case "init":
		build, _ := debug.ReadBuildInfo()
		for _, module := range build.Deps {
			if module.Path == "github.com/IBM/sarama" {
				a.Version = strings.TrimPrefix(module.Version, "v")
			}
		}
		err = initialize(c)
	case "begin":
		err = producer.BeginTxn()
	case "send":
		a.Offsets, err = send(c)
	case "offsets":
		err = addOffsets(c)
	case "commit":
		err = producer.CommitTxn()
	case "abort":
		err = producer.AbortTxn()
	}
	return a, err
}

// meaning follows the status of the producer, as the client's examples do.
func meaning(do string, err error) string {
	if errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch) {
		return "fenced"
	}
	if do == "init" || do == "begin" || producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		return "fatal"
	}
	if do == "abort" || do == "commit" && producer.TxnStatus()&sarama.ProducerTxnFlagAbortableError == 0 {
		return "retriable"
	}
	return "abortable"
}

func main() {
	input, output := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var c command
		if input.Decode(&c) != nil {
			return
		}
		a, err := carryOut(c)
		if err != nil {
			a = answer{Error: err.Error(), Meaning: meaning(c.Do, err)}
		}
		a.OK = err == nil
		output.Encode(a)
	}
}
