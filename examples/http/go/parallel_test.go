// Parallel tests in Go: each subtest has a broker by its own name, which is deleted after its client is closed.
package billing

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"net/http"
	"net/url"
	"testing"
)

func TestOrders(t *testing.T) {
	for _, order := range []string{"first", "second", "third"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			path := "/" + url.PathEscape(t.Name()) // TestOrders%2Ffirst
			address := post(t, "?ttl_seconds=60&field=bootstrap_servers&name="+url.QueryEscape(t.Name()))
			t.Cleanup(func() {
				request, _ := http.NewRequest("DELETE", "http://127.0.0.1:8080/brokers"+path, nil)
				_, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
			})
			post(t, path+"/produce?topic=orders&records="+order)
			client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("orders"))
			require.NoError(t, err)
			defer client.Close()
			require.Equal(t, order, string(client.PollFetches(t.Context()).Records()[0].Value))
		})
	}
}
