// graphile-worker 0.18 for Node under the contract of contract.py.
const { createInterface } = require("node:readline");
const { Logger, makeWorkerUtils, run, runMigrations } = require("graphile-worker-0.18");

const logger = new Logger(() => () => {});
const [role, settings] = [process.argv[2], JSON.parse(process.argv[3])];
const connectionString = process.env.DATABASE_URL;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (value) => console.log(JSON.stringify(value));
const lines = () => createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let delays = [];

async function bench(payload) {
  if (payload.t) delays.push(performance.timeOrigin + performance.now() - payload.t);
  if (payload.ms) await sleep(payload.ms);
}

function preset() {
  const worker = { concurrentJobs: settings.concurrency, maxPoolSize: settings.connections };
  if (settings.local_queue) worker.localQueue = { size: settings.local_queue };
  if (settings.batch_delay !== undefined) {
    worker.completeJobBatchDelay = settings.batch_delay;
    worker.failJobBatchDelay = settings.batch_delay;
  }
  return { worker };
}

async function work() {
  const input = lines();
  say({ ready: true });
  if ((await input.next()).done) return;
  run({ connectionString, logger, noHandleSignals: true, preset: preset(), taskList: { bench } });
  while (!(await input.next()).done) {
    say({ delays });
    delays = [];
  }
}

async function addAsOrdered(utils, { count, size, queue, rate, ms }, start) {
  const spec = queue ? { queueName: queue } : {};
  if (size) {
    for (let first = 0; first < count; first += size) {
      const jobs = [];
      for (let n = first; n < Math.min(first + size, count); n++) {
        jobs.push({ identifier: "bench", payload: { n }, ...spec });
      }
      await utils.addJobs(jobs);
    }
    return;
  }
  for (let n = 0; n < count; n++) {
    const payload = ms ? { n, ms } : { n };
    if (rate) {
      const wait = start + (n / rate) * 1000 - performance.now();
      if (wait > 0) await sleep(wait);
      payload.t = performance.timeOrigin + performance.now();
    }
    await utils.addJob("bench", payload, spec);
  }
}

async function add() {
  const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 1 });
  say({ ready: true });
  for await (const line of { [Symbol.asyncIterator]: lines }) {
    const start = performance.now();
    await addAsOrdered(utils, JSON.parse(line), start);
    say({ seconds: (performance.now() - start) / 1000 });
  }
  await utils.release();
}

async function main() {
  if (role === "prepare") await runMigrations({ connectionString, logger });
  else if (role === "work") await work();
  else await add();
  process.exit(0);
}

main();
