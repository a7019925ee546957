// A worker in Node. Handlers are the exported functions of a module, by the names of job types:
//
//   DATABASE_URL=postgresql://… node worker.mjs ./handlers.mjs
//
// It talks to the database through psql, so that it needs nothing installed; with a driver, only `query` changes.
// It keeps the three rules of every worker: renew what you hold (that is also the heartbeat), pass the generation that the
// claim gave you with every call, and stop working on a job as soon as a call says that it is not yours any more.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const { DATABASE_URL, HOLDFAST_SCHEMA = 'holdfast', QUEUES = 'default' } = process.env
const seconds = (name, otherwise) => Number(process.env[name] ?? otherwise) * 1000
const [renewEvery, pollEvery] = [seconds('RENEW_SECONDS', 5), seconds('POLL_SECONDS', 1)]
const slots = Number(process.env.CONCURRENCY ?? 4)
const worker = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`
const handlers = await import(resolve(process.argv[2]))

// The rows of a statement. Values travel as one JSON document, which psql quotes: data stays data.
function query(select, values = {}) {
  const statement = `
    WITH given AS (SELECT (:'given')::jsonb AS v)
    SELECT coalesce(json_agg(answer), '[]') FROM given, LATERAL (${select.replaceAll('@', ':"s".')}) AS answer;`
  const options = ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-v', `s=${HOLDFAST_SCHEMA}`]
  return new Promise((done, fail) => {
    const psql = execFile('psql', [...options, DATABASE_URL], { maxBuffer: 2 ** 28 }, (error, stdout, stderr) =>
      error ? fail(Object.assign(error, { sqlstate: /ERROR: {2}(\w{5}):/.exec(stderr)?.[1], stderr })) : done(JSON.parse(stdout)))
    // Through the pipe, because a command line is short; a quote inside a psql variable's value is doubled.
    psql.stdin.end(`\\set given '${JSON.stringify(values).replaceAll('\\', '\\\\').replaceAll("'", "''")}'\n${statement}`)
  })
}

const claim = (free) => query(
  `SELECT * FROM @claim(v->>'worker', ARRAY(SELECT jsonb_array_elements_text(v->'queues')), (v->>'free')::int, '30 s')`,
  { worker, queues: QUEUES.split(','), free })
const call = (expression, job, more) => query(
  `SELECT @${expression.replace('(', "((v->>'id')::uuid, (v->>'generation')::bigint")} AS result`,
  { id: job.id, generation: job.lease_generation, ...more })

async function run(job) {
  const cancelled = new AbortController()
  const keeper = setInterval(() => call('renew()', job).then(
    ([{ result }]) => result && cancelled.abort(new Error('cancelled')),
    (error) => error.sqlstate?.startsWith('HF') && cancelled.abort(new Error('lease lost'))), renewEvery)
  try {
    const handler = handlers[job.type_name]
    if (!handler) throw new Error(`no handler for ${job.type_name} here`)
    const output = await handler(job.input, { signal: cancelled.signal, job })
    await call(`complete(, v->'output')`, job, { output: output ?? null })
    console.log(`completed ${job.id}`)
  } catch (error) {
    const [failed] = await call(`fail(, v->>'message', v->>'name', v->>'stack')`, job, {
      message: error.message, name: error.name, stack: error.stack }).catch(() => [])
    console.log(failed ? `failed ${job.id}: ${failed.result}` : `lost ${job.id}`)
  } finally {
    clearInterval(keeper)
  }
}

let stopping = false
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { stopping = true })
const running = new Set()
console.log(`worker ${worker}`)
while (!stopping) {
  const jobs = running.size < slots ? await claim(slots - running.size).catch((error) => (console.error(error.stderr), [])) : []
  for (const job of jobs) {
    const task = run(job).finally(() => running.delete(task))
    running.add(task)
  }
  if (jobs.length === 0) await Promise.race([sleep(pollEvery), ...running])
}
await Promise.all(running)
await query(`SELECT @retire(v->>'worker')`, { worker })
