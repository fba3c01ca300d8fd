// Runs before the script of the page: the server's answers are always these, and time passes only in its four updates.
const UPDATES = 4, LAGS = [9, 7, 12, 5];
let updates = 0;
window.isDone = false;

const request = (number, api, names, errors = {}) => ({ number, wall_ms: 1767225600000 + number * 250, peer: "127.0.0.1:40000",
  node: null, client_id: "billing-worker", api, version: 9, correlation_id: number, latency_ms: 0.4 + number / 10,
  groups: names, topics: [], errors, request: null, response: null });
const group = (group_id, state, members, lag) => ({ group_id, type: "classic", state, members, lag });
const member = (client_id, index) => ({ member_id: client_id, client_id, client_host: "127.0.0.1", partitions: [["orders", index]] });

const ANSWERS = {
  "/brokers": () => [{ broker: "main", bootstrap_servers: "127.0.0.1:9092" }],
  "/summary": () => ({
    topics: [{ name: "__consumer_offsets", partitions: 50, end: 40 + updates, bytes: 4000 + 90 * updates },
      { name: "orders", partitions: 2, end: 100 * updates, bytes: 20000 * updates }],
    groups: [group("billing", "Stable", 2, LAGS[updates - 1]),
      group("payments-reconciliation-service-of-the-north-in-production", "Empty", 0, 1830)],
    unknown: {},
  }),
  "/faults": () => [{ fault: 1, kind: "error", apis: ["OffsetCommit"], n: 2, hits: 1, is_active: true,
    text: "<fault error: OffsetCommit NOT_COORDINATOR, struck 1 of 2 times>" }],
  "/request_counts": () => ({ last_event: updates, requests: { Fetch: 12, OffsetCommit: 3 }, errors: { NOT_COORDINATOR: 1 } }),
  "/clock": () => ({ wall_ms: 1767225600000, mono_ms: 0, manual_clock: true }),
  "/requests": () => ({ last_event: updates, requests: [request(1, "JoinGroup", ["billing"]),
    request(2, "OffsetCommit", ["billing"], { NOT_COORDINATOR: 1 }), request(3, "OffsetCommit", ["billing"])] }),
  "/why": () => [{ name: "offset-outside", group: "billing", help: "Reset the offsets.",
    sentence: "group 'billing' has committed 40 in orders-0, beyond the end 2: the topic was created anew" }],
  "/overview": () => ({ partitions: { orders: { 0: { high_watermark: 42 }, 1: { high_watermark: 58 } } },
    groups: [{ view: { group_id: "billing", generation: 3, members: [member("worker-1", 0), member("worker-2", 1)] },
      committed: { orders: { 0: 40, 1: 55 } }, lag: { orders: { 0: 2, 1: 3 } } }], unknown: {} }),
};

window.fetch = async (url) => {
  const path = url.split("?")[0].replace("/brokers/main", "");
  if (path === "/brokers") updates += 1;
  return new Response(JSON.stringify(ANSWERS[path]()));
};
performance.now = () => updates * 1000;
const later = window.setTimeout.bind(window);
window.setTimeout = (run, ms = 0) => {
  if (ms < 1000) return later(run, ms);
  // The updates after the first one wait until the group is open.
  if (updates === 1 && !document.querySelector("#groups details[open]")) return later(() => window.setTimeout(run, ms), 1);
  if (updates < UPDATES) return later(run, 0);
  window.isDone = true;  // the next update
  return 0;
};
