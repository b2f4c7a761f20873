// The npm package redlock: takes and releases the lock NAME as its stdin says.

const { default: Redlock, ExecutionError } = require("redlock");
const Redis = require("ioredis");

// PORT is one, or those of a quorum with commas between.
// The address is a number: a machine may lack /etc/hosts.
const [ports, name, ttl] = process.argv.slice(2);
const servers = ports.split(",").map((port) => new Redis(Number(port), "127.0.0.1"));
const redlock = new Redlock(servers, { retryCount: 0 });
redlock.on("error", () => {}); // Reported by the promise, too.
let lock;

async function obey(order) {
  try {
    if (order === "take") lock = await redlock.acquire([name], ttl * 1000);
    else await lock.release();
    return "yes";
  } catch (error) {
    if (error instanceof ExecutionError) return "no";
    throw error;
  }
}

(async () => {
  for await (const order of require("readline").createInterface({ input: process.stdin })) console.log(await obey(order));
  process.exit();
})();
