// A test in Go: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func post(url, given string) []byte {
	response, err := http.Post(url, "application/json", strings.NewReader(given))
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		log.Fatal(string(body), err)
	}
	return body
}

func main() {
	var started struct{ Broker, Bootstrap_servers string }
	json.Unmarshal(post(os.Args[1]+"/brokers", `{"manual_clock": true}`), &started)
	broker := os.Args[1] + "/brokers/" + started.Broker
	post(broker+"/produce", `{"topic": "orders", "records": ["a"]}`)
	post(broker+"/faults/error", `{"api": "OffsetCommit", "error": "NOT_COORDINATOR", "n": 2}`)
	servers := kgo.SeedBrokers(started.Bootstrap_servers)
	client, _ := kgo.NewClient(servers, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
	client.PollFetches(context.Background())
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		log.Fatal(err)
	}
	client.Close()
	post(broker+"/faults/1/wait", `{"hits": 2, "timeout": 0}`)
	post(broker+"/assert_lag", `{"group": "billing", "expected": 0}`)
	post(broker+"/clock/advance", `{"days": 8}`)
	post(broker+"/assert_committed", `{"group": "billing", "expected": {"orders": {"0": null}}}`)
}
