// Writes a record, reads it as a member of a group, commits, and reads the committed offset.
// Arguments: address, topic, group.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	address, topic, group := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()

	writer := &kafka.Writer{Addr: kafka.TCP(address), Topic: topic, AllowAutoTopicCreation: true, BatchTimeout: time.Millisecond}
	check(writer.WriteMessages(ctx, kafka.Message{Key: []byte("k"), Value: []byte("first")}))
	check(writer.Close())

	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, GroupID: group, Topic: topic, MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset})
	message, err := reader.FetchMessage(ctx)
	check(err)
	check(reader.CommitMessages(ctx, message))
	check(reader.Close())

	client := &kafka.Client{Addr: kafka.TCP(address)}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {message.Partition}}})
	check(err)
	fmt.Printf("%s %d\n", message.Value, offsets.Topics[topic][0].CommittedOffset)
}
