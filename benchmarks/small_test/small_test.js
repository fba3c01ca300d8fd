// The small test with KafkaJS: see clients.py.
const { Kafka, logLevel } = require("kafkajs");
const readline = require("node:readline");

async function smallTest(address, name, partitions) {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: name, numPartitions: partitions }] });
  await admin.disconnect();
  const producer = kafka.producer();
  await producer.connect();
  const messages = Array.from({ length: 10 }, (_, number) => ({ value: `${number}`, partition: 0 }));
  await producer.send({ topic: name, messages });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: name });
  await consumer.connect();
  await consumer.subscribe({ topic: name, fromBeginning: true });
  let count = 0;
  await new Promise((resolve, reject) => {
    const eachMessage = async () => void (++count === 10 && resolve());
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  await consumer.commitOffsets([{ topic: name, partition: 0, offset: "10" }]);
  await consumer.disconnect();
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [address, name, partitions] = line.split(" ");
    const began = performance.now();
    await smallTest(address, name, Number(partitions));
    console.log((performance.now() - began) / 1000);
  }
})();
