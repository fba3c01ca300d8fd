// A broker for one test, by the name of the test.
exports.post = async (path) => {
  const response = await fetch(`${process.env.KAFKA_OFFSETS_HTTP}/brokers${path}`, { method: "POST" });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
};

exports.startBroker = async (test) => {
  const path = `/${encodeURIComponent(test)}`;
  const address = await exports.post(`?name=${path.slice(1)}&topics=orders=1&ttl_seconds=60&field=bootstrap_servers`);
  const stop = () => fetch(`${process.env.KAFKA_OFFSETS_HTTP}/brokers${path}`, { method: "DELETE" });
  return { address, path, stop };
};
