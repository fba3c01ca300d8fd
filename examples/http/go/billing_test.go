// A test in Go: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
package billing

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"testing"
)

func TestACommitIsRepeatedAndExpires(t *testing.T) {
	kafka := NewBroker(t, "manual_clock=true&topics=orders=1")
	kafka.Post(t, "faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2")
	client, _ := kgo.NewClient(kgo.SeedBrokers(kafka.Address), kgo.ConsumerGroup("billing"))
	require.NoError(t, client.CommitRecords(t.Context(), &kgo.Record{Topic: "orders", Offset: 6}))
	client.Close()
	kafka.Post(t, "faults/1/wait?hits=2&timeout=0")
	kafka.Post(t, "clock/advance?days=8")
	kafka.Post(t, "assert_committed?group=billing&expected=orders:0:null")
}
