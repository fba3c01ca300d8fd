// Makes a broker and reads a record, by the client of ogen.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"example/client"

	"github.com/go-faster/jx"
)

type noToken struct{}

func (noToken) Token(context.Context, client.OperationName) (client.Token, error) {
	return client.Token{Token: "unused"}, nil
}

func main() {
	ctx := context.Background()
	api, err := client.NewClient(os.Args[1], noToken{})
	check(err)
	name := "ogen/1"
	made, err := api.PostBrokers(ctx, client.NewOptPostBrokersReq(client.PostBrokersReq{Name: client.NewOptString(name)}))
	check(err)
	produced, err := api.PostProduce(ctx, &client.PostProduceReq{
		Topic: "orders", Records: []jx.Raw{jx.Raw(`{"value": "first", "timestamp": 1700000000000}`)}},
		client.PostProduceParams{Broker: made.Broker})
	check(err)
	read, err := api.GetConsumeAll(ctx, client.GetConsumeAllParams{Broker: name, Topic: "orders"})
	check(err)
	value, err := jx.DecodeBytes(read[0].Value).Str()
	check(err)
	fmt.Println(read[0].Topic, produced["orders"]["0"], read[0].Timestamp, value)
	_, err = api.GetBroker(ctx, client.GetBrokerParams{Broker: "none"})
	var problem *client.ProblemStatusCode
	if !errors.As(err, &problem) {
		panic(err)
	}
	fmt.Println(problem.Response.Detail)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
