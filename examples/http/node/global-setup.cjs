// Starts a server for a run of Jest or Vitest. It ends with its standard input, so also when the runner is killed.
const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");

module.exports = async () => {
  const options = ["serve", "--port", "0", "--http", "0", "--with-parent", "stdin"];
  const server = spawn("kafka-offsets", options, { stdio: ["pipe", "ignore", "pipe"] });
  const ended = new Promise((resolve, reject) => server.on("exit", resolve).on("error", reject));
  for await (const line of createInterface({ input: server.stderr })) {
    if (line.startsWith("HTTP on ")) process.env.KAFKA_OFFSETS_HTTP = line.slice("HTTP on ".length, -1);
    if (line.startsWith("listening on ")) break;
  }
  server.stderr.resume();
  globalThis.stopKafka = () => (server.stdin.end(), ended); // Jest calls this in globalTeardown, Vitest what is returned
  return globalThis.stopKafka;
};
