// A test in JavaScript: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
const assert = require("node:assert");
const { test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");

async function post(path) {
  const response = await fetch(`http://127.0.0.1:8080/brokers${path}`, { method: "POST" });
  const text = await response.text();
  assert.ok(response.ok, text);
  return text;
}

test("a commit is repeated, and expires", async () => {
  const address = await post("?name=node&manual_clock=true&field=bootstrap_servers");
  await post("/node/produce?topic=orders&records=a");
  await post("/node/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 100 });
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  await post("/node/wait_for/caught_up?group=billing&timeout=30");
  await consumer.disconnect();
  await post("/node/faults/1/wait?hits=2&timeout=0");
  await post("/node/clock/advance?days=8");
  await post("/node/assert_committed?group=billing&expected=orders:0:null");
});
