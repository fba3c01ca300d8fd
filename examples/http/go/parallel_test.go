// Parallel tests in Go: each subtest has a broker by its own name, which is deleted after its client is closed.
package billing

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"testing"
)

func TestOrders(t *testing.T) {
	for _, order := range []string{"first", "second", "third"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			kafka := NewBroker(t, "topics=orders=1")
			kafka.Post(t, "produce?topic=orders&records=" + order)
			client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Address), kgo.ConsumeTopics("orders"))
			require.NoError(t, err)
			defer client.Close()
			require.Equal(t, order, string(client.PollFetches(t.Context()).Records()[0].Value))
		})
	}
}
