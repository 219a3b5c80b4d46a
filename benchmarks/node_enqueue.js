// Adds jobs with the real graphile-worker. Reads commands from standard input, one JSON object per line,
// {"count": jobs, "size": jobs per call (0: addJob)}, and answers each with the seconds that it took.
const { createInterface } = require("node:readline");
const { Logger, makeWorkerUtils } = require("graphile-worker-0.18");

const payload = (n) => ({ to: "someone@example.com", subject: "benchmark", n });

async function add(utils, count, size) {
  if (size === 0) {
    for (let n = 0; n < count; n++) await utils.addJob("benchmark", payload(n));
    return;
  }
  for (let start = 0; start < count; start += size) {
    const jobs = [];
    for (let n = start; n < start + size; n++) jobs.push({ identifier: "benchmark", payload: payload(n) });
    await utils.addJobs(jobs);
  }
}

async function main() {
  const utils = await makeWorkerUtils({
    schema: process.env.BENCHMARK_SCHEMA,
    maxPoolSize: 1,
    logger: new Logger(() => () => {}),
  });
  console.log(JSON.stringify({ ready: true }));
  for await (const line of createInterface({ input: process.stdin })) {
    const { count, size } = JSON.parse(line);
    const start = process.hrtime.bigint();
    await add(utils, count, size);
    console.log(JSON.stringify({ seconds: Number(process.hrtime.bigint() - start) / 1e9 }));
  }
  await utils.release();
}

main();
