// A test in JavaScript: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
const { Kafka, logLevel } = require("kafkajs");

async function post(url, given) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(given) });
  if (!response.ok) throw new Error(await response.text());
  return response.status === 204 ? null : response.json();
}

async function main(serve) {
  const started = await post(`${serve}/brokers`, { manual_clock: true });
  const broker = `${serve}/brokers/${started.broker}`;
  await post(`${broker}/produce`, { topic: "orders", records: ["a"] });
  await post(`${broker}/faults/error`, { api: "OffsetCommit", error: "NOT_COORDINATOR", n: 2 });
  const kafka = new Kafka({ brokers: [started.bootstrap_servers], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 100 });
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  await post(`${broker}/wait_for/caught_up`, { group: "billing", timeout: 30 });
  await consumer.disconnect();
  await post(`${broker}/faults/1/wait`, { hits: 2, timeout: 0 });
  await post(`${broker}/clock/advance`, { days: 8 });
  await post(`${broker}/assert_committed`, { group: "billing", expected: { orders: { 0: null } } });
}

main(process.argv[2]);
