// Makes a broker and reads a record, by the client of oapi-codegen.
package main

import (
	"context"
	"fmt"
	"os"

	"example/client"
)

func main() {
	ctx := context.Background()
	api, err := client.NewClientWithResponses(os.Args[1])
	check(err)
	name := "oapi-codegen/1"
	made, err := api.PostBrokersWithResponse(ctx, client.PostBrokersJSONRequestBody{Name: &name})
	check(err)
	produced, err := api.PostProduceWithResponse(ctx, made.JSON201.Broker, client.PostProduceJSONRequestBody{
		Topic: "orders", Records: []any{map[string]any{"value": "first", "timestamp": 1700000000000}}})
	check(err)
	end := (*produced.JSON200)["orders"]["0"]
	read, err := api.GetConsumeAllWithResponse(ctx, name, &client.GetConsumeAllParams{Topic: "orders"})
	check(err)
	record := (*read.JSON200)[0]
	fmt.Println(record.Topic, end, record.Timestamp, record.Value)
	missing, err := api.GetBrokerWithResponse(ctx, "none")
	check(err)
	fmt.Println(missing.ApplicationproblemJSONDefault.Detail)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
