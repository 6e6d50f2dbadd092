// Driver of sarama: one JSON request a line in, one JSON answer a line out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const (
	pollEvery     = 200 * time.Millisecond
	commitTimeout = 45 * time.Second
)

var errUnsupported = errors.New("unsupported")

type header struct {
	name  string
	value []byte
}

func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.name, &h.value})
}

func (h header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.name, h.value})
}

type record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type request struct {
	Op          string           `json:"op"`
	Topic       string           `json:"topic"`
	Partitions  json.RawMessage  `json:"partitions"`
	Replication int16            `json:"replication"`
	Records     []record         `json:"records"`
	Codec       string           `json:"codec"`
	PaceMs      int              `json:"pace_ms"`
	TimeoutS    float64          `json:"timeout_s"`
	Name        string           `json:"name"`
	Group       string           `json:"group"`
	Protocol    string           `json:"protocol"`
	Count       int              `json:"count"`
	At          int64            `json:"at"`
	Before      map[string]int64 `json:"before"`
}

type answer map[string]any

// member is a consumer of a group; sarama calls it with claims, and it hands records over one by one.
type member struct {
	group   sarama.ConsumerGroup
	records chan *sarama.ConsumerMessage
	cancel  context.CancelFunc
	done    chan struct{}
	topic   string
	name    string
	taken   map[int32]int64
	session atomic.Pointer[sarama.ConsumerGroupSession]
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.session.Store(&session)
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case m.records <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

type driver struct {
	seeds   []string
	members map[string]*member
}

func main() {
	d := &driver{strings.Split(os.Args[1], ","), map[string]*member{}}
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		given := answer{"ok": true}
		if err = json.Unmarshal(line, &asked); err == nil {
			err = d.answer(asked, given)
		}
		if err != nil {
			given = answer{"ok": false, "error": err.Error(), "unsupported": errors.Is(err, errUnsupported)}
		}
		text, _ := json.Marshal(given)
		fmt.Println(string(text))
	}
}

func (d *driver) answer(asked request, given answer) error {
	switch asked.Op {
	case "version":
		info, _ := debug.ReadBuildInfo()
		for _, each := range info.Deps {
			if each.Path == "github.com/IBM/sarama" {
				given["version"] = strings.TrimPrefix(each.Version, "v")
			}
		}
		return nil
	case "create_topic", "delete_topic", "topics", "delete_records":
		return d.administer(asked, given)
	case "produce":
		return d.produce(asked, given)
	case "read":
		return d.read(asked, given)
	case "open":
		return d.open(asked)
	case "poll":
		return d.poll(asked, given)
	case "commit":
		return d.commit(d.members[asked.Name])
	case "close":
		return d.close(asked.Name)
	case "offsets_for_time":
		return d.offsetsForTime(asked, given)
	}
	return fmt.Errorf("%w: the driver of sarama has no operation %s", errUnsupported, asked.Op)
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func (d *driver) administer(asked request, given answer) error {
	admin, err := sarama.NewClusterAdmin(d.seeds, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	switch asked.Op {
	case "create_topic":
		var partitions int32
		if err := json.Unmarshal(asked.Partitions, &partitions); err != nil {
			return err
		}
		detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: asked.Replication}
		return admin.CreateTopic(asked.Topic, detail, false)
	case "delete_topic":
		return admin.DeleteTopic(asked.Topic)
	case "topics":
		found, err := admin.ListTopics()
		names := []string{}
		for name := range found {
			names = append(names, name)
		}
		given["topics"] = names
		return err
	}
	before := map[int32]int64{}
	for each, offset := range asked.Before {
		partition, _ := strconv.Atoi(each)
		before[int32(partition)] = offset
	}
	given["low"] = asked.Before // sarama does not hand the low watermarks over
	return admin.DeleteRecords(asked.Topic, before)
}

func (d *driver) produce(asked request, given answer) error {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 100
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Net.MaxOpenRequests = 1
	if asked.Codec != "" {
		if err := config.Producer.Compression.UnmarshalText([]byte(asked.Codec)); err != nil {
			return err
		}
	}
	producer, err := sarama.NewAsyncProducer(d.seeds, config)
	if err != nil {
		return err
	}
	go func() {
		for _, each := range asked.Records {
			producer.Input() <- message(asked.Topic, each)
			time.Sleep(time.Duration(asked.PaceMs) * time.Millisecond)
		}
	}()
	placed := [][]int64{}
	var failed error
	for range asked.Records {
		select {
		case each := <-producer.Successes():
			placed = append(placed, []int64{int64(each.Partition), each.Offset})
		case each := <-producer.Errors():
			failed = each
		}
	}
	given["placed"] = placed
	return errors.Join(failed, producer.Close())
}

func message(topic string, each record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: topic, Partition: each.Partition}
	if each.Key != nil {
		made.Key = sarama.ByteEncoder(each.Key)
	}
	if each.Value != nil {
		made.Value = sarama.ByteEncoder(each.Value)
	}
	if each.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*each.Timestamp)
	}
	for _, pair := range each.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: []byte(pair.name), Value: pair.value})
	}
	return made
}

func (d *driver) read(asked request, given answer) error {
	partitions := []int32{}
	if err := json.Unmarshal(asked.Partitions, &partitions); err != nil {
		return err
	}
	client, err := sarama.NewClient(d.seeds, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	defer consumer.Close()
	records := []record{}
	deadline := time.After(time.Duration(asked.TimeoutS * float64(time.Second)))
	for _, partition := range partitions {
		start, err := client.GetOffset(asked.Topic, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		end, err := client.GetOffset(asked.Topic, partition, sarama.OffsetNewest)
		if err != nil {
			return err
		}
		if start == end {
			continue
		}
		stream, err := consumer.ConsumePartition(asked.Topic, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		for last := start - 1; last < end-1; {
			select {
			case each := <-stream.Messages():
				records = append(records, shown(each))
				last = each.Offset
			case <-deadline:
				return fmt.Errorf("partition %d: no record at %d", partition, last+1)
			}
		}
		if err := stream.Close(); err != nil {
			return err
		}
	}
	given["records"] = records
	return nil
}

func (d *driver) open(asked request) error {
	if asked.Protocol == "consumer" {
		return fmt.Errorf("%w: sarama has no group protocol consumer", errUnsupported)
	}
	group, err := sarama.NewConsumerGroup(d.seeds, asked.Group, settings())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	made := &member{
		group: group, records: make(chan *sarama.ConsumerMessage), cancel: cancel, done: make(chan struct{}),
		topic: asked.Topic, name: asked.Group, taken: map[int32]int64{},
	}
	go func() {
		defer close(made.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{asked.Topic}, made); err != nil {
				time.Sleep(pollEvery)
			}
		}
	}()
	d.members[asked.Name] = made
	return nil
}

func (d *driver) poll(asked request, given answer) error {
	m := d.members[asked.Name]
	records := []record{}
	deadline := time.After(time.Duration(asked.TimeoutS * float64(time.Second)))
	for late := false; !late && (asked.Count == 0 || len(records) < asked.Count); {
		select {
		case each := <-m.records:
			m.taken[each.Partition] = each.Offset + 1
			records = append(records, shown(each))
		case <-deadline:
			late = true
		}
	}
	assigned := []int32{}
	if session := m.session.Load(); session != nil {
		for _, partitions := range (*session).Claims() {
			assigned = append(assigned, partitions...)
		}
	}
	sort.Slice(assigned, func(i, j int) bool { return assigned[i] < assigned[j] })
	given["records"], given["assigned"], given["events"] = records, assigned, []any{}
	return nil
}

func (d *driver) close(name string) error {
	m := d.members[name]
	delete(d.members, name)
	m.cancel()
	<-m.done
	_ = m.group.Close() // a dead coordinator is not told: the session times out
	return nil
}

// commit asks until the offsets are there: sarama tells no failure of a commit.
func (d *driver) commit(m *member) error {
	deadline := time.Now().Add(commitTimeout)
	for {
		session := *m.session.Load()
		for partition, offset := range m.taken {
			session.MarkOffset(m.topic, partition, offset, "")
		}
		session.Commit()
		missing, err := d.missing(m)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not committed: %v, %v", missing, err)
		}
		time.Sleep(pollEvery)
	}
}

// missing names the partitions whose committed offset is not the one that was taken.
func (d *driver) missing(m *member) ([]int32, error) {
	admin, err := sarama.NewClusterAdmin(d.seeds, settings())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	partitions := []int32{}
	for partition := range m.taken {
		partitions = append(partitions, partition)
	}
	found, err := admin.ListConsumerGroupOffsets(m.name, map[string][]int32{m.topic: partitions})
	if err != nil {
		return nil, err
	}
	missing := []int32{}
	for partition, offset := range m.taken {
		if block := found.GetBlock(m.topic, partition); block == nil || block.Offset != offset {
			missing = append(missing, partition)
		}
	}
	return missing, nil
}

func (d *driver) offsetsForTime(asked request, given answer) error {
	partitions := []int32{}
	if err := json.Unmarshal(asked.Partitions, &partitions); err != nil {
		return err
	}
	client, err := sarama.NewClient(d.seeds, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	offsets := map[string]int64{}
	for _, partition := range partitions {
		found, err := client.GetOffset(asked.Topic, partition, asked.At)
		if err != nil {
			return err
		}
		offsets[strconv.Itoa(int(partition))] = found
	}
	given["offsets"] = offsets
	return nil
}

func shown(each *sarama.ConsumerMessage) record {
	at := each.Timestamp.UnixMilli()
	headers := []header{}
	for _, pair := range each.Headers {
		headers = append(headers, header{string(pair.Key), pair.Value})
	}
	return record{each.Partition, each.Offset, &at, each.Key, each.Value, headers}
}
