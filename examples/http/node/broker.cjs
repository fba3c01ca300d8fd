// A broker for each test: const broker = await startBroker(t.name, "topics=orders=1"); t.after(broker.stop);
const server = () => process.env.KAFKA_OFFSETS_HTTP ?? "http://127.0.0.1:8080";

async function call(method, path) {
  const response = await fetch(`${server()}/brokers${path}`, { method });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

exports.startBroker = async (test, settings) => {
  const name = encodeURIComponent(test);
  const address = await call("POST", `?field=bootstrap_servers&ttl_seconds=60&name=${name}&${settings}`);
  return {
    address,
    // Do something with the broker: "faults/error?api=Fetch&error=…", "wait_for/caught_up?group=billing" …
    post: (operation) => call("POST", `/${name}/${operation}`),
    stop: () => call("DELETE", `/${name}`),
  };
};
