// A broker for each test: kafka := NewBroker(t, "topics=orders=1"). It stops when the test has ended.
package billing

import (
	"cmp"
	"github.com/stretchr/testify/require"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
)

type Broker struct{ Address, path string }

func NewBroker(t *testing.T, settings string) *Broker {
	address := call(t, "POST", "?field=bootstrap_servers&name="+url.QueryEscape(t.Name())+"&"+settings)
	t.Cleanup(func() { call(t, "DELETE", "/"+url.PathEscape(t.Name())) })
	return &Broker{address, "/" + url.PathEscape(t.Name()) + "/"} // TestOrders%2Ffirst
}

func call(t *testing.T, method, path string) string {
	server := cmp.Or(os.Getenv("KAFKA_OFFSETS_HTTP"), "http://127.0.0.1:8080")
	request, _ := http.NewRequest(method, server+"/brokers"+path, nil)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, _ := io.ReadAll(response.Body)
	require.Less(t, response.StatusCode, 300, string(body))
	return string(body)
}

func (b *Broker) Post(t *testing.T, operation string) string { return call(t, "POST", b.path+operation) }
