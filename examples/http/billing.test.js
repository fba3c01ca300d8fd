// A test in JavaScript: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
const { test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");
const { startBroker } = require("./node/broker.cjs");

test("a commit is repeated, and expires", async (t) => {
  const broker = await startBroker(t.name, "manual_clock=true&topics=orders=1");
  t.after(broker.stop);
  await broker.post("produce?topic=orders&records=a");
  await broker.post("faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
  const kafka = new Kafka({ brokers: [broker.address], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 100 });
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  await broker.post("wait_for/caught_up?group=billing&timeout=30");
  await consumer.disconnect();
  await broker.post("faults/1/wait?hits=2&timeout=0");
  await broker.post("clock/advance?days=8");
  await broker.post("assert_committed?group=billing&expected=orders:0:null");
});
