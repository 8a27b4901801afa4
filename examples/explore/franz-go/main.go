// franz-go as a driver of `fencepost explore`: it answers each line of JSON with a line.
//
// The client adds offsets to a transaction only for a member of a group (GroupTransactSession), and the programs of an
// exploration have no members. So this program itself sends the two requests for offsets. All else is the client's own.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

type command struct {
	Do                   string
	TimeoutMs            int `json:"timeout_ms"`
	Bootstrap            string
	TransactionalID      string `json:"transactional_id"`
	TransactionTimeoutMs int    `json:"transaction_timeout_ms"`
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
	client          *kgo.Client
	transactionalID string
	addsOffsets     bool // from transaction.version 2 on, TxnOffsetCommit alone adds the group to the transaction
)

func initialize(ctx context.Context, c command) error {
	if client != nil {
		client.Close()
	}
	transactionalID = c.TransactionalID
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.TxnOffsetCommit.Int16(), 5) // from 6 on, a topic has an id and no name
	var err error
	client, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(c.Bootstrap, ",")...),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(time.Duration(c.TransactionTimeoutMs)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxVersions(versions),
	)
	if err != nil {
		return err
	}
	if _, _, err = client.ProducerID(ctx); err != nil { // the client finds the topics at the first record of each
		return err
	}
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "driver", "1"
	cluster, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	addsOffsets = !slices.ContainsFunc(cluster.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == "transaction.version" && f.MaxVersionLevel >= 2
	})
	return nil
}

func send(ctx context.Context, c command) (offsets []int64, err error) {
	var records []*kgo.Record
	for _, r := range c.Records {
		record := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: []byte(r.Key), Value: []byte(r.Value)}
		for _, header := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		records = append(records, record)
	}
	err = client.ProduceSync(ctx, records...).FirstErr()
	for _, record := range records {
		offsets = append(offsets, record.Offset)
	}
	return offsets, err
}

func sendOffsets(ctx context.Context, c command) error {
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	if addsOffsets {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = transactionalID, id, epoch, c.Group
		added, err := add.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(added.ErrorCode)
		}
		if err != nil {
			return err
		}
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = transactionalID, id, epoch, c.Group
	for _, o := range c.Offsets {
		topic, partition := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
		topic.Topic, partition.Partition, partition.Offset, partition.Metadata = o.Topic, o.Partition, o.Offset, &o.Metadata
		topic.Partitions = append(topic.Partitions, partition)
		commit.Topics = append(commit.Topics, topic)
	}
	committed, err := commit.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range committed.Topics {
		for _, partition := range topic.Partitions {
			err = cmp.Or(err, kerr.ErrorForCode(partition.ErrorCode))
		}
	}
	return err
}

func carryOut(c command) (a answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	switch c.Do {
	case "init":
		build, _ := debug.ReadBuildInfo()
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				a.Version = strings.TrimPrefix(module.Version, "v")
			}
		}
		err = initialize(ctx, c)
	case "begin":
		err = client.BeginTransaction()
	case "send":
		a.Offsets, err = send(ctx, c)
	case "offsets":
		err = sendOffsets(ctx, c)
	case "commit": // its documentation advises against a time-out
		err = client.EndTransaction(context.Background(), kgo.TryCommit)
	case "abort":
		if err = client.AbortBufferedRecords(ctx); err == nil {
			err = client.EndTransaction(context.Background(), kgo.TryAbort)
		}
	}
	return a, err
}

// meaning follows the documentation of EndTransaction: after an error of a commit, TryAbort shows whether the client can go on.
func meaning(do string, err error) string {
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return "fenced"
	case (do == "init" || do == "offsets") && (kerr.IsRetriable(err) || errors.Is(err, kerr.ConcurrentTransactions)):
		return "retriable"
	case do == "init" || do == "begin" || do == "abort":
		return "fatal"
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
