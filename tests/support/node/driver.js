// One command for one version of the real Graphile Worker: node driver.js VERSION COMMAND [JSON]
//
// The database comes from the PG* variables. Each line on stdout is one JSON value for the test; everything that
// Graphile Worker says goes to stderr.
"use strict";

const { EventEmitter } = require("node:events");
const fs = require("node:fs");

const [version, command, argument = "{}"] = process.argv.slice(2);
const graphile = require(`graphile-worker-${version}`);
const input = JSON.parse(argument);

const logger = new graphile.Logger(() => (level, message) => console.error(`${level}: ${message}`));
const options = { logger, schema: input.schema, noHandleSignals: true };

const say = (value) => console.log(JSON.stringify(value));

const report = (payload, helpers) => {
  const { job } = helpers;
  say({ task: job.task_identifier, payload, key: job.key, attempts: job.attempts, priority: job.priority });
  if (payload && payload.fail) throw new Error(payload.fail);
};

const taskList = Object.fromEntries((input.tasks ?? ["task"]).map((name) => [name, report]));

// Write down when a job began and ended, by the clock that all processes of this machine share.
const recorded = async (payload) => {
  const note = (what) => {
    const line = { by: "node", what, n: payload.n, queue: payload.queue, at: String(process.hrtime.bigint()) };
    fs.appendFileSync(input.history, `${JSON.stringify(line)}\n`);
  };
  note("start");
  await new Promise((resolve) => setImmediate(resolve));
  note("end");
};

const aLine = () => new Promise((resolve) => process.stdin.once("data", resolve));

const commands = {
  async migrate() {
    await graphile.runMigrations(options);
  },

  // Migrate when told to, at the same moment as others.
  async race() {
    process.stdout.write("ready\n");
    await aLine();
    process.stdin.destroy();
    await graphile.runMigrations(options);
    process.stdout.write("migrated\n");
  },

  async add() {
    const utils = await graphile.makeWorkerUtils(options);
    for (const { identifier, payload, spec = {} } of input.jobs) {
      const runAt = spec.runAt && new Date(spec.runAt);
      say(await utils.addJob(identifier, payload, { ...spec, runAt }));
    }
    await utils.release();
  },

  async addMany() {
    const utils = await graphile.makeWorkerUtils(options);
    for (const job of await utils.addJobs(input.specs, input.preserveRunAt)) say(job);
    await utils.release();
  },

  async runOnce() {
    await graphile.runOnce({ ...options, taskList });
  },

  // Give back what was locked more than four hours ago, once, as each worker does now and then.
  async resetLocked() {
    const events = new EventEmitter();
    const reset = new Promise((resolve) => events.once("resetLocked:success", resolve));
    const soon = { minResetLockedInterval: 1, maxResetLockedInterval: 1, pollInterval: 60000 };
    const runner = await graphile.run({ ...options, ...soon, taskList, events });
    await reset;
    await runner.stop();
  },

  // Work beside others, quick to look for what they leave.
  async share() {
    const runner = await graphile.run({ ...options, taskList: { shared: recorded }, concurrency: 4, pollInterval: 20 });
    process.stdout.write("ready\n");
    aLine().then(() => runner.stop());
    await runner.promise;
    process.stdin.destroy();
    say("stopped");
  },

  // Schedule a crontab, and leave its jobs to others, until a line comes on stdin.
  async schedule() {
    process.stdout.write("ready\n");
    const runner = await graphile.run({ ...options, taskList, crontab: input.crontab, pollInterval: 60000 });
    aLine().then(() => runner.stop());
    await runner.promise;
    process.stdin.destroy();
    say("stopped");
  },

  // Take a job and never end it.
  async hold() {
    const hold = () => {
      say("holding");
      return new Promise(() => {});
    };
    await graphile.run({ ...options, taskList: { task: hold }, concurrency: 1, pollInterval: 60000 });
    process.stdout.write("ready\n");
  },

  // Work until a line comes on stdin, or until the worker stops by itself.
  async work() {
    const runner = await graphile.run({ ...options, taskList, concurrency: 2, pollInterval: 60000 });
    process.stdout.write("ready\n");
    aLine().then(() => runner.stop());
    await runner.promise;
    process.stdin.destroy();
    say("stopped");
  },
};

commands[command]().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
