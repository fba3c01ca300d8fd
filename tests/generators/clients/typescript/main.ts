// Makes a broker and reads a record, with the types of openapi-typescript and the client openapi-fetch.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

async function main() {
  const api = createClient<paths>({ baseUrl: process.argv[2] });
  const broker = "typescript/1";
  await api.POST("/brokers", { body: { name: broker } });
  const path = { broker };
  const records = [{ value: "first", timestamp: 1_700_000_000_000 }];
  const ends = await api.POST("/brokers/{broker}/produce", { params: { path }, body: { topic: "orders", records } });
  const read = await api.GET("/brokers/{broker}/consume_all", { params: { path, query: { topic: "orders" } } });
  const record: components["schemas"]["ConsumedRecord"] = read.data![0];
  console.log(record.topic, ends.data!.orders["0"], record.timestamp, record.value);
  const missing = await api.GET("/brokers/{broker}", { params: { path: { broker: "none" } } });
  console.log(missing.error!.detail);
}

main();
