// Sets a fault over HTTP from Node, round after round, and commits over a socket until it has struck.
//
//     node http_control.js BROKER HOST PORT FRAME ROUNDS
//
// BROKER is a URL, FRAME a request in base64, which begins with its size. Prints the milliseconds of each round as JSON:
// [[until the answer that the fault is in force, until the commit has its error], ...]. http_control.py starts it.
const net = require("node:net");

const [broker, host, port, frame, rounds] = process.argv.slice(2);
const request = Buffer.from(frame, "base64");
const SUCCESS = 0, NOT_COORDINATOR = 16;

// The error code of the only partition of an OffsetCommit response of version 2: the last two bytes.
function commit(socket) {
  return new Promise((done) => {
    let received = Buffer.alloc(0);
    const read = (piece) => {
      received = Buffer.concat([received, piece]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      socket.off("data", read);
      done(received.readInt16BE(received.length - 2));
    };
    socket.on("data", read);
    socket.write(request);
  });
}

function expect(code, expected) {
  if (code !== expected) throw new Error(`error code ${code}, expected ${expected}`);
}

async function main() {
  const socket = net.connect(Number(port), host).setNoDelay(), times = [];
  for (let round = 0; round < Number(rounds); round++) {
    expect(await commit(socket), SUCCESS);
    const begin = performance.now();
    const answer = await fetch(`${broker}/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=1`, { method: "POST" });
    await answer.text();
    if (answer.status !== 201) throw new Error(`status ${answer.status}`);
    const inForce = performance.now() - begin;
    expect(await commit(socket), NOT_COORDINATOR);
    times.push([inForce, performance.now() - begin]);
  }
  socket.end();
  console.log(JSON.stringify(times));
}

main();
