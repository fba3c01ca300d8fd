// A test in Go: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
package billing

import (
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func post(t *testing.T, path string) string {
	response, err := http.Post(os.Getenv("KAFKA_OFFSETS_URL")+path, "", nil)
	require.NoError(t, err)
	body, _ := io.ReadAll(response.Body)
	require.Less(t, response.StatusCode, 300, string(body))
	return string(body)
}

func TestACommitIsRepeatedAndExpires(t *testing.T) {
	address := post(t, "/brokers?name=go&manual_clock=true&field=bootstrap_servers")
	post(t, "/brokers/go/produce?topic=orders&records=a")
	post(t, "/brokers/go/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2")
	client, _ := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
	client.PollFetches(t.Context())
	require.NoError(t, client.CommitUncommittedOffsets(t.Context()))
	client.Close()
	post(t, "/brokers/go/faults/1/wait?hits=2&timeout=0")
	post(t, "/brokers/go/assert_lag?group=billing&expected=0")
	post(t, "/brokers/go/clock/advance?days=8")
	post(t, "/brokers/go/assert_committed?group=billing&expected=orders:0:null")
}
