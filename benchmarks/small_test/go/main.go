// The small test with franz-go: see ../clients.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func smallTest(address, name string, partitions int32, protocol string) {
	ctx, servers := context.Background(), kgo.SeedBrokers(address)
	admin := client(servers)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	_, err := request.RequestWith(ctx, admin)
	check(err)
	admin.Close()

	producer := client(servers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		record := &kgo.Record{Topic: name, Value: []byte(fmt.Sprint(i))}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(ctx))
	producer.Close()

	options := []kgo.Opt{servers, kgo.ConsumerGroup(name), kgo.ConsumeTopics(name), kgo.DisableAutoCommit()}
	options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	consumer := client(options...)
	for read := 0; read < 10; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		read += fetches.NumRecords()
	}
	check(consumer.CommitUncommittedOffsets(ctx))
	consumer.Close()
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var address, name, protocol string
		var partitions int32
		_, err := fmt.Sscan(lines.Text(), &address, &name, &partitions, &protocol)
		check(err)
		began := time.Now()
		smallTest(address, name, partitions, protocol)
		fmt.Println(time.Since(began).Seconds())
	}
}
