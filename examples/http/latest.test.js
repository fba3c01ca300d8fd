// A consumer that begins at the end of the log, as by default: it reads what is produced once `consuming` has occurred.
const { test } = require("node:test");
const assert = require("node:assert");
const { Kafka, logLevel } = require("kafkajs");
const { startBroker } = require("./node/broker.cjs");

test("what is produced now is read", { timeout: 60_000 }, async (t) => {
  const broker = await startBroker(t.name, "topics=orders=1");
  t.after(broker.stop);
  await broker.post("produce?topic=orders&records=old");
  const kafka = new Kafka({ brokers: [broker.address], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 100 });
  await consumer.subscribe({ topic: "orders" });
  const read = new Promise((resolve) =>
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }));
  await broker.post("wait_for/consuming?group=billing&timeout=30");
  await broker.post("produce?topic=orders&records=new");
  assert.equal(await read, "new");
  await consumer.disconnect();
});
