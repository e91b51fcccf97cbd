import { createHmac } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { TASK_ENVIRONMENT } from '../../../../contract/process/task-environment.ts';
import { pause } from '../../../../platform/async/backoff.ts';
import { messageOf } from '../../../../platform/errors.ts';
import { runAgent } from '../../agents/programs/agent.ts';
import { runInAgent } from '../../agents/programs/run-in-agent.ts';
import { exitCodeOf, startCommand } from '../../agents/programs/shell-command.ts';
import { otherRanks, withAgents } from '../../agents/programs/with-agents.ts';
import type { RayPlan } from '../prepare-ray.ts';

/*
 * The program of framework ray, in each task with a rank:
 *
 *   task with rank 0                                          each other task with a rank
 *   ray.mjs PLAN ----------- join, end (with-agents.ts) ----> ray.mjs PLAN (agent.ts)
 *     ray start --head                                          |
 *       (in each other task) -- run (run-in-agent.ts) --------->+
 *     WAIT: until all tasks have joined Ray                       ray start --address
 *     the user's command
 *
 * All processes of Ray authenticate each other with a token that is derived from the job's key. The executor ends them with the program.
 */

/** Files in TMPDIR, which the executor empties before each run. docs/frameworks/ray.md names the token's. */
const TOKEN = 'ray-token';
const FOLDER = 'ray';
const LOG = 'ray-start.log';
/** What `ray start` prints when Ray runs in the task. */
const STARTED = 'Ray runtime started.';
/** Longest time in s that the tasks may take to join Ray. */
const JOIN_SECONDS = 120;
const POLL_MS = 100;

/** Older versions do not support tokens (before 2.52), or a folder for each node (2.52 fails at the start). */
const OLDEST = '2.60';

const CHECKS = `
command -v ray >/dev/null || { echo 'Ray is not installed in this Python environment: add ray[default] to python.requirements' >&2; exit 127; }
version=$(ray --version | grep -o '[0-9][0-9.]*' | head -n 1)
if [ "$(printf '%s\\n' ${OLDEST} "$version" | sort -V | head -n 1)" != ${OLDEST} ]; then
  echo "Ray $version is too old, because it cannot authenticate its connections or keep each node's files apart: install Ray ${OLDEST} or newer" >&2
  exit 127
fi
`;

/**
 * Returns a bash command that runs Ray in a task until it ends. `ray start` prints instructions that do not apply here, and the logs of
 * processes that ended, so only its own errors are shown.
 */
function rayCommand(options: string): string {
  return `log=$TMPDIR/${LOG}
ray start ${options} --block $TONY_RAY_OPTIONS >"$log" 2>&1
code=$?
grep 'ERR scripts.py' "$log" | grep -v 'tail (' >&2 || cat "$log" >&2
exit $code`;
}

/** Python program that waits until this number of tasks has joined Ray. */
const WAIT = `import ray, sys, time
tasks = int(sys.argv[1])
ray.init(log_to_driver=False, logging_level="ERROR")
limit = time.monotonic() + ${JOIN_SECONDS}
while (joined := sum(node["Alive"] for node in ray.nodes())) < tasks:
    if time.monotonic() > limit:
        sys.exit(f"only {joined} of {tasks} tasks joined Ray within ${JOIN_SECONDS} s")
    time.sleep(0.1)`;

async function main(file: string): Promise<number> {
  const task = JSON.parse(readFileSync(process.env[TASK_ENVIRONMENT.taskFile] ?? '', 'utf8')) as TaskContext;
  const { command, options } = JSON.parse(readFileSync(file, 'utf8')) as RayPlan;
  const folder = process.env.TMPDIR ?? '';
  const token = path.join(folder, TOKEN);
  writeFileSync(token, createHmac('sha256', Buffer.from(task.ringKey, 'base64')).update('ray').digest('base64url'), { mode: 0o600 });
  const own = task.members.find(({ role, index }) => role === task.role && index === task.index);
  Object.assign(process.env, {
    RAY_AUTH_MODE: 'token',
    RAY_AUTH_TOKEN_PATH: token,
    RAY_USAGE_STATS_ENABLED: process.env.RAY_USAGE_STATS_ENABLED ?? '0',
    TONY_RAY_WAIT: WAIT,
    TONY_RAY_OPTIONS: [
      '--log-color=false',
      options,
      `--temp-dir=${path.join(folder, FOLDER)}`,
      ...(await addressOption(own?.host ?? '')),
    ].join(' '),
  });
  // Ray ends with this program, because the executor then kills its processes.
  return task.taskRank === 0
    ? await withAgents(task, () => runHead(task, command, folder))
    : await runAgent(task, { restMs: 0, failsWithCommands: true });
}

/** Makes Ray use the address at which the other tasks reach this one. Ray replaces a loopback address itself. */
async function addressOption(host: string): Promise<string[]> {
  const { address } = await lookup(host);
  return address.startsWith('127.') || address === '::1' ? [] : [`--node-ip-address=${address}`];
}

/** Starts Ray in all tasks, and runs the user's command. Returns its exit code. */
async function runHead(task: TaskContext, command: string, folder: string): Promise<number> {
  const [dashboard, clients] = await Promise.all([freePort(), freePort()]);
  process.env.TONY_RAY_OPTIONS += ` --dashboard-port=${dashboard} --ray-client-server-port=${clients}`;
  const head = exitCodeOf(startCommand(`${CHECKS}${rayCommand('--head --port=0')}`));
  while (!(await isStarted(path.join(folder, LOG)))) {
    const failed = await Promise.race([head, pause(POLL_MS)]);
    if (typeof failed === 'number') {
      return failed;
    }
  }
  const address = readFileSync(path.join(folder, FOLDER, 'ray_current_cluster'), 'utf8').trim();
  process.env.RAY_ADDRESS = address;
  const ownEnd = head.then((code): LostRay => ({ rank: null, cause: `Ray ended in this task, with exit code ${code}` }));
  const lost = Promise.race([ownEnd, ...otherRanks(task).map((rank) => endOfWorker(task, rank, address))]);
  const joined = await runUnless(lost, task, `exec python3 -c "$TONY_RAY_WAIT" ${task.taskWorldSize}`);
  if (joined !== 0) {
    return joined;
  }
  console.log(`Ray runs in ${task.taskWorldSize} tasks. Dashboard: tony-ts forward ${task.jobId} ${task.role}:${task.index} ${dashboard}`);
  return await runUnless(lost, task, command);
}

async function isStarted(log: string): Promise<boolean> {
  return (await readFile(log, 'utf8').catch(() => '')).includes(STARTED);
}

interface LostRay {
  /** The rank of the task in which Ray ended, or null for this task. */
  readonly rank: number | null;
  /** A sentence that names the task. */
  readonly cause: string;
}

/** Runs Ray in another task. Resolves when it has ended. */
async function endOfWorker(task: TaskContext, rank: number, address: string): Promise<LostRay> {
  let cause = '';
  try {
    const code = await runInAgent(task, rank, { command: rayCommand(`--address=${address}`), folder: '' }, (lost) => (cause = lost));
    return { rank, cause: cause || `Ray ended in the task with rank ${rank}, with exit code ${code}` };
  } catch (error) {
    return { rank, cause: messageOf(error) };
  }
}

/** Runs a command. If Ray ends in a task, reports it and stops the command. Returns the command's exit code, or 1. */
async function runUnless(lost: Promise<LostRay>, task: TaskContext, command: string): Promise<number> {
  const child = startCommand(command);
  const end = await Promise.race([exitCodeOf(child), lost]);
  if (typeof end === 'number') {
    return end;
  }
  console.error(end.cause);
  if (end.rank !== null) {
    appendFileSync(task.reportFile, `${JSON.stringify({ type: 'peer-lost', taskRank: end.rank })}\n`);
  }
  child.kill();
  return 1;
}

/** Returns a port that is free on this machine. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

try {
  process.exit(await main(process.argv[2] ?? ''));
} catch (error) {
  console.error(messageOf(error));
  process.exit(255);
}
