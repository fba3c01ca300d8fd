// A test with Jest: what is produced is read. The client is closed before its broker.
const { Kafka, logLevel } = require("kafkajs");
const { startBroker } = require("./broker.cjs");

let broker, consumer;
beforeEach(async () => {
  broker = await startBroker(expect.getState().currentTestName, "topics=orders=1");
  consumer = new Kafka({ brokers: [broker.address], logLevel: logLevel.NOTHING }).consumer({ groupId: "billing" });
});
afterEach(async () => {
  await consumer.disconnect(); // otherwise it tries to connect again, and Jest does not exit
  await broker.stop();
});

test.each(["first", "second/1"])("order %s is read", async (order) => {
  await broker.post(`produce?topic=orders&records=${order}`);
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const read = new Promise((resolve) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) });
  });
  expect(await read).toBe(order);
});
