// Writes a record, reads it as a member of a group, commits, and reads the committed offset.
// Arguments: address, topic, group; for SASL_SSL the file of the certificate to trust, mechanism, user and password.
const fs = require("fs")
const { Kafka, logLevel } = require("kafkajs")

async function main(address, topic, groupId, ca, mechanism, username, password) {
  const security = ca && { ssl: { ca: [fs.readFileSync(ca)] }, sasl: { mechanism, username, password } }
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR, ...security })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ key: "k", value: "first" }] })
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const value = await new Promise((resolve) => {
    consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ message }) => resolve(message.value.toString()) })
  })
  await consumer.stop()
  await consumer.disconnect()

  const admin = kafka.admin()
  await admin.connect()
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] })
  await admin.disconnect()
  const committed = offsets.partitions.find((each) => each.offset !== "-1")
  console.log(value, committed.offset)
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
