// A test in Go: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
package billing

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"io"
	"net/http"
	"testing"
)

func post(t *testing.T, path string) string {
	response, err := http.Post("http://127.0.0.1:8080/brokers"+path, "", nil)
	require.NoError(t, err)
	body, _ := io.ReadAll(response.Body)
	require.Less(t, response.StatusCode, 300, string(body))
	return string(body)
}

func TestACommitIsRepeatedAndExpires(t *testing.T) {
	address := post(t, "?name=go&manual_clock=true&topics=orders=1&field=bootstrap_servers")
	post(t, "/go/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2")
	client, _ := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup("billing"))
	require.NoError(t, client.CommitRecords(t.Context(), &kgo.Record{Topic: "orders", Offset: 6}))
	client.Close()
	post(t, "/go/faults/1/wait?hits=2&timeout=0")
	post(t, "/go/clock/advance?days=8")
	post(t, "/go/assert_committed?group=billing&expected=orders:0:null")
}
