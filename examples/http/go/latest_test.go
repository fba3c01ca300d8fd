// Consumers that begin at the end of the log read what is produced once `consuming` has occurred; the second one gets
// its partitions in the second rebalance of a cooperative join.
package billing

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"testing"
)

func TestTwoConsumersAtTheEnd(t *testing.T) {
	kafka := NewBroker(t, "topics=orders=3")
	kafka.Post(t, "produce?topic=orders&records=old&records=old&records=old")
	values := make(chan string, 6)
	for _, members := range []string{"1", "2"} {
		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Address), kgo.ConsumeTopics("orders"),
			kgo.ConsumerGroup("billing"), kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
		require.NoError(t, err)
		defer client.Close()
		go func() {
			for t.Context().Err() == nil {
				client.PollFetches(t.Context()).EachRecord(func(record *kgo.Record) { values <- string(record.Value) })
			}
		}()
		kafka.Post(t, "wait_for/consuming?group=billing&timeout=60&members="+members)
	}
	kafka.Post(t, "produce?topic=orders&records=a&records=b&records=c")
	require.ElementsMatch(t, []string{"a", "b", "c"}, []string{<-values, <-values, <-values})
}
