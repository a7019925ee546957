// Graphile Worker on Node; the protocol is told in protocol.py.  The environment is named by PEER_ENVIRONMENT,
// because modules are looked for beside the importing file, and NODE_PATH does not count for them.
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const BATCH = 5000;
const TELL_MILLISECONDS = 20;

const require = createRequire(path.join(process.env.PEER_ENVIRONMENT, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Logger, makeWorkerUtils, run } = await load("graphile-worker");

const { url, settings } = JSON.parse(process.argv[2]);
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") process.stderr.write(`${message}\n`);
});

const say = (document) => process.stdout.write(`${JSON.stringify(document)}\n`);
const payload = (number) => ({ order_id: 10_000 + (number % 90_000), email: "someone.longer@example.com" });
const seconds = async (work) => {
  const began = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - began) / 1e9;
};

let utils = null;
const connected = async () => (utils ??= await makeWorkerUtils({ connectionString: url, logger }));

let started = 0;
let firstNs = 0n;
let told = 0;
const taskList = {
  receipt: async () => {
    if (started === 0) firstNs = process.hrtime.bigint();
    started += 1;
  },
  stamp: async ({ sent_ns }) => say({ waited_ns: Number(process.hrtime.bigint() - BigInt(sent_ns)) }),
};

const obey = {
  ready: async () => ({}),
  prepare: async () => {
    await (await connected()).migrate();
    return {
      "graphile-worker": require(path.join(process.env.PEER_ENVIRONMENT, "node_modules/graphile-worker/package.json")).version,
      Node: process.versions.node,
    };
  },
  enqueue_batch: async ({ jobs }) => {
    const { addJobs } = await connected();
    return seconds(async () => {
      for (let start = 0; start < jobs; start += BATCH) {
        const specs = [];
        for (let number = start; number < Math.min(start + BATCH, jobs); number += 1)
          specs.push({ identifier: "receipt", payload: payload(number) });
        await addJobs(specs);
      }
    });
  },
  enqueue_single: async ({ jobs }) => {
    const { addJob } = await connected();
    return seconds(async () => {
      for (let number = 0; number < jobs; number += 1) await addJob("receipt", payload(number));
    });
  },
  enqueue_stamped: async () => {
    await (await connected()).addJob("stamp", { sent_ns: process.hrtime.bigint().toString() });
    return null;
  },
};

let runner = null;
const tell = () => {
  if (started !== told) say({ started, first_ns: Number(firstNs) });
  told = started;
};
const work = async () => {
  runner = await run({
    taskList,
    parsedCronItems: [],
    noHandleSignals: true,
    preset: { worker: { connectionString: url, logger, ...settings.worker } },
  });
  setInterval(tell, TELL_MILLISECONDS).unref();
};

const ended = async () => {
  if (runner !== null) await runner.stop();
  if (utils !== null) await utils.release();
  say({ done: {} });
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do === "stop") break;
  try {
    if (command.do === "work") {
      await work();
      say({ done: {} });
    } else say({ done: (await obey[command.do](command)) ?? {} });
  } catch (error) {
    say({ failed: String(error.stack ?? error) });
  }
}
await ended();
process.exit(0);
