/**
 * `npm run bench -- pages [--tasks N] [--viewers N] [--seconds N] [--output json]`: runs a job of 200 tasks on a local cluster, while 20
 * viewers poll through the ResourceManager's proxy as the job's page does. Measures how late the ApplicationMaster sends heartbeats, and
 * how much memory it uses. The benchmark itself measures the ApplicationMaster's calls to the ResourceManager, and requests to its web
 * server. The ApplicationMaster reports the other figures.
 */
import { spawn } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { cp, mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { isMainThread, Worker } from 'node:worker_threads';
import type { JobStatus } from '../conf/status/status.ts';
import { encodeFileVersion, encodeScalars } from '../contract/summary/event-file.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { Cluster } from '../integration-tests/cluster/cluster.mjs';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { type Figure, type Goal, showFigures } from './figures.ts';
import { type Answer, type Order, observe, proxied } from './pages/observer.ts';

const ROOT = process.cwd();
const COMMAND = path.join(ROOT, 'dist', 'tony-ts.js');
const USER = 'alice';
/** Interval in ms between the ApplicationMaster's heartbeats to the ResourceManager when no container requests are open. */
const BEAT_MS = 1000;
const HEARTBEAT_MS = 1000;
/** Resources that the page polls, with their polling intervals in ms. */
const POLLS = [
  { resource: 'job', everyMs: 2000 },
  { resource: 'usage', everyMs: 5000 },
  { resource: 'scalars', everyMs: 5000 },
  { resource: 'events', everyMs: 5000 },
] as const;
const [RUNS, TAGS, STEPS] = [8, 20, 1000] as const;
const GOALS = { latenessMs: 200, residentMiB: 200 };

/** This program only reports progress, as a training script does. It waits with `read`, because `sleep` would start a process. */
const PROGRAM = [
  'F=$(sed -n \'s/.*"reportFile":"\\([^"]*\\)".*/\\1/p\' "$TONY_TASK_FILE")',
  'exec 9<> <(:)',
  'for ((i = 1; ; i++)); do printf \'{"type":"progress","step":%d,"metrics":{"loss":0.%d,"rate":12.5}}\\n\' $i $i >> "$F"; read -t 2 -u 9; done',
].join('; ');

async function main(): Promise<void> {
  const { tasks, viewers, seconds, output } = settings();
  const progress = (line: string): void => void process.stderr.write(`${line}\n`);
  const cluster = new Cluster(Number(process.env.TONY_CLUSTER_OFFSET ?? 0));
  if ((await cluster.stoppedDaemons()).length < 5) {
    throw new Error('this benchmark starts its own cluster; stop the running one with npm run cluster -- down');
  }
  const folder = await mkdtemp(path.join(ROOT, '.cache', 'pages-'));
  const observer = new Observer();
  const viewing = new AbortController();
  setMaxListeners(0, viewing.signal);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`ended by ${signal}`)));
  }
  const wait = (ms: number): Promise<void> => delay(ms, undefined, { signal: interrupted.signal });
  let jobId: string | null = null;
  try {
    await start(cluster, tasks, progress);
    const port = await observer.record('localhost', cluster.ports.resourcemanager.scheduler);
    const environment = await configureSchedulerPort(cluster, port, folder);
    const storage = createStorage({ hadoop: await HadoopConfiguration.fromDirectory(cluster.configuration), user: USER });
    jobId = await submit(folder, environment, tasks);
    const api = `${cluster.resourceManager}/proxy/${jobId}/tony/api/v1`;
    progress(`${jobId}: ${tasks} tasks are being started`);
    const began = performance.now();
    const summaries = await untilRunning(api, tasks, wait);
    await Promise.all(Array.from({ length: RUNS }, (_, run) => writeCurves(storage, `${summaries}/run-${run}`, 0, STEPS)));
    const launchS = Math.round((performance.now() - began) / 1000);
    progress(`all tasks are running after ${launchS} s`);
    const master = await findMaster(jobId);
    observer.order({ type: 'probe', host: '127.0.0.1', port: master.webPort, user: USER });

    const seen = new Sightings();
    for (let viewer = 0; viewer < viewers; viewer++) {
      void view(api, viewer / viewers, seen, viewing.signal);
    }
    void keepWriting(storage, summaries, viewing.signal);
    await wait(15_000);
    progress(`${viewers} viewers poll for ${seconds} s`);
    seen.forget();
    observer.order({ type: 'forget' });
    const resident: number[] = [];
    for (const end = performance.now() + seconds * 1000; performance.now() < end; await wait(1000)) {
      resident.push((await memoryKbOf(master.pid, 'VmRSS')) / 1024);
    }
    const outside = await observer.report();
    viewing.abort();
    storage.close();
    const memoryUse = {
      residentMiB: Math.round(Math.max(...resident)),
      residentPeakMiB: Math.round((await memoryKbOf(master.pid, 'VmHWM')) / 1024),
    };
    progress(`${outside.pauses.length} calls, ${seen.latencies.length} answers to viewers`);
    showFigures('pages', figuresOf({ launchS, ...resultOf(outside, seen), ...memoryUse }), output);
  } finally {
    viewing.abort();
    observer.close();
    if (jobId !== null) {
      await run(['kill', jobId], cluster.environment()).catch(() => '');
    }
    await rm(folder, { recursive: true, force: true });
    await cluster.down();
  }
}

function settings(): { readonly tasks: number; readonly viewers: number; readonly seconds: number; readonly output: string } {
  const { values } = parseArgs({
    options: {
      tasks: { type: 'string', default: '200' },
      viewers: { type: 'string', default: '20' },
      seconds: { type: 'string', default: '120' },
      output: { type: 'string', default: 'text' },
    },
  });
  const { tasks, viewers, seconds, output } = values;
  return { tasks: Number(tasks), viewers: Number(viewers), seconds: Number(seconds), output };
}

/** Starts a cluster whose nodes offer enough (nominal) memory for all tasks. */
async function start(cluster: Cluster, tasks: number, log: (line: string) => void): Promise<void> {
  const [memory, cpus] = ['yarn.nodemanager.resource.memory-mb', 'yarn.nodemanager.resource.cpu-vcores'];
  await cluster.up({ fresh: true, overrides: { yarn: { [memory]: Math.max(8192, tasks * 128), [cpus]: Math.max(8, tasks) } }, log });
}

/** Waits until all tasks run, and returns the job's summary folder. */
async function untilRunning(api: string, tasks: number, wait: (ms: number) => Promise<void>): Promise<string> {
  const began = performance.now();
  for (;;) {
    const status = (await poll(`${api}/job`).catch(() => null)) as JobStatus | null;
    const running = status?.tasks.filter(({ state }) => state === 'running').length ?? 0;
    if (status !== null && running >= tasks) {
      return status.summaryUri;
    }
    if (performance.now() - began > 600_000) {
      throw new Error(`only ${running} of ${tasks} tasks are running`);
    }
    await wait(1000);
  }
}

function resultOf(outside: Answer & { type: 'seen' }, seen: Sightings): Readonly<Record<string, number>> {
  const beatLateness = outside.pauses.map((pause) => Math.max(0, pause - BEAT_MS));
  const silences = seen.silences.map((silent) => Math.max(0, silent - HEARTBEAT_MS));
  const cpuCores = seen.cpu.reduce((sum, cores) => sum + cores, 0) / Math.max(1, seen.cpu.length);
  return {
    load: loadavg()[0] ?? 0,
    beatLatenessP99Ms: percentile(beatLateness, 0.99),
    beatLatenessMaxMs: Math.round(Math.max(0, ...beatLateness)),
    answerMedianMs: percentile(outside.answers, 0.5),
    answerP99Ms: percentile(outside.answers, 0.99),
    answerMaxMs: percentile(outside.answers, 1),
    lostAnswers: outside.lost,
    ownLatenessP99Ms: percentile(seen.lateness, 1),
    executorSilenceP99Ms: percentile(silences, 0.99),
    viewerFailures: seen.failures,
    viewerMedianMs: percentile(seen.latencies, 0.5),
    viewerP99Ms: percentile(seen.latencies, 0.99),
    masterCpuCores: Math.round(cpuCores * 100) / 100,
    machineLatenessP99Ms: percentile(outside.idle, 0.99),
  };
}

class Observer {
  readonly #worker = new Worker(fileURLToPath(import.meta.url));

  order(order: Order): void {
    this.#worker.postMessage(order);
  }

  async record(host: string, port: number): Promise<number> {
    this.order({ type: 'record', host, port });
    const [answer] = (await once(this.#worker, 'message')) as [Answer];
    if (answer.type !== 'recording') {
      throw new Error('the observer did not start recording');
    }
    return answer.port;
  }

  async report(): Promise<Answer & { type: 'seen' }> {
    this.order({ type: 'report' });
    const [answer] = (await once(this.#worker, 'message')) as [Answer];
    if (answer.type !== 'seen') {
      throw new Error('the observer recorded nothing');
    }
    return answer;
  }

  close(): void {
    void this.#worker.terminate();
  }
}

class Sightings {
  latencies: number[] = [];
  lateness: number[] = [];
  silences: number[] = [];
  cpu: number[] = [];
  failures = 0;

  take(status: JobStatus): void {
    this.lateness.push(status.master?.latenessMs ?? 0);
    this.cpu.push(status.master?.cpuCores ?? 0);
    this.silences.push(...status.tasks.map(({ silentMs }) => silentMs ?? 0));
  }

  forget(): void {
    [this.latencies, this.lateness, this.silences, this.cpu, this.failures] = [[], [], [], [], 0];
  }
}

/** Polls like one open page. `share` (0..1) shifts the polls in time, so that the viewers do not poll simultaneously. */
async function view(api: string, share: number, seen: Sightings, signal: AbortSignal): Promise<void> {
  await Promise.all(
    POLLS.map(async ({ resource, everyMs }) => {
      await delay(share * everyMs, undefined, { signal }).catch(() => {});
      for (let after = 0; !signal.aborted; await delay(everyMs, undefined, { signal }).catch(() => {})) {
        const began = performance.now();
        try {
          const query = resource === 'usage' || resource === 'events' ? `?after=${after}` : '';
          const answer = await poll(`${api}/${resource}${query}`);
          seen.latencies.push(performance.now() - began);
          if (resource === 'job') {
            seen.take(answer as JobStatus);
          }
          after = (answer as { next?: number }).next ?? 0;
        } catch {
          if (!signal.aborted) {
            seen.failures++;
          }
        }
      }
    }),
  );
}

async function poll(url: string): Promise<unknown> {
  const answer = await fetch(`${url}${url.includes('?') ? '&' : '?'}user.name=${USER}`, { signal: AbortSignal.timeout(20_000) });
  if (!answer.ok) {
    throw new Error(`${url}: ${answer.status}`);
  }
  return answer.json();
}

/** Writes an event file in the format that `training` writes. */
async function writeCurves(storage: Storage, run: string, from: number, to: number): Promise<void> {
  const records = [encodeFileVersion(Date.now() / 1000)];
  for (let step = from; step < to; step++) {
    const values = Array.from({ length: TAGS }, (_, tag) => ({ tag: `metrics/value-${tag}`, value: Math.sin(step / (50 + tag)) }));
    records.push(encodeScalars(Date.now() / 1000, step, values));
  }
  await storage.write(`${run}/events.out.tfevents.${1_700_000_000 + from}.host.1`, Buffer.concat(records));
}

async function keepWriting(storage: Storage, summaries: string, signal: AbortSignal): Promise<void> {
  for (let step = STEPS; !signal.aborted; step += 10) {
    for (let run = 0; run < RUNS && !signal.aborted; run++) {
      await writeCurves(storage, `${summaries}/run-${run}`, step, step + 10).catch(() => {});
    }
    await delay(5000, undefined, { signal }).catch(() => {});
  }
}

/** Creates a client configuration that makes the ApplicationMaster connect to the scheduler through this port. */
async function configureSchedulerPort(cluster: Cluster, port: number, folder: string): Promise<Record<string, string>> {
  const configuration = path.join(folder, 'conf');
  await cp(cluster.configuration, configuration, { recursive: true });
  const file = path.join(configuration, 'yarn-site.xml');
  const text = await readFile(file, 'utf8');
  const property = /(<name>yarn\.resourcemanager\.scheduler\.address<\/name><value>)[^<]*/;
  if (!property.test(text)) {
    throw new Error('the cluster configuration has no scheduler address');
  }
  await writeFile(file, text.replace(property, `$1localhost:${port}`));
  return { ...cluster.environment(), HADOOP_CONF_DIR: configuration };
}

async function submit(folder: string, environment: Record<string, string>, tasks: number): Promise<string> {
  const conf = path.join(folder, 'job.yaml');
  const roles = `{worker: {instances: ${tasks}, resources: {memory: 128m}}}`;
  const rest = `master: {resources: {memory: 512m}}\ngang: {timeout: 570s}\n`;
  await writeFile(conf, `name: pages\nframework: none\nruntime: system\ncommand: |\n  ${PROGRAM}\nroles: ${roles}\n${rest}`);
  const output = await run(['submit', '--conf', conf, '--detach', '--output', 'json'], environment);
  const id = /application_\d+_\d+/.exec(output)?.[0];
  if (id === undefined) {
    throw new Error(`nothing was submitted:\n${output}`);
  }
  return id;
}

async function run(words: readonly string[], environment: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, [COMMAND, ...words], {
    env: { ...process.env, ...environment, HADOOP_USER_NAME: USER },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await once(child, 'close');
  return output;
}

async function findMaster(jobId: string): Promise<{ pid: number; webPort: number }> {
  const serial = jobId.replace('application_', '');
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    if (!words[0]?.endsWith('node') || !words.some((word) => word.endsWith('application-master.mjs'))) {
      continue;
    }
    if (!(await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')).includes(`_${serial}_`)) {
      continue;
    }
    for (const port of await listeningPorts(Number(pid))) {
      const headers = proxied(USER);
      const answer = await fetch(`http://127.0.0.1:${port}/tony/api/v1/none`, { headers, signal: AbortSignal.timeout(3000) }).catch(
        () => null,
      );
      if (answer?.status === 404) {
        return { pid: Number(pid), webPort: port };
      }
    }
  }
  throw new Error('the ApplicationMaster was not found');
}

/** Reads /proc/net/tcp (see proc(5)). */
async function listeningPorts(pid: number): Promise<number[]> {
  const files = await readdir(`/proc/${pid}/fd`);
  const links = await Promise.all(files.map((file) => readlink(`/proc/${pid}/fd/${file}`).catch(() => '')));
  const inodes = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []));
  const lines = (await readFile(`/proc/${pid}/net/tcp`, 'utf8')).split('\n').slice(1);
  return lines.flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    return state === '0A' && inodes.has(inode) ? [Number.parseInt(local.split(':')[1] ?? '', 16)] : [];
  });
}

async function memoryKbOf(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return Math.round(value * 10) / 10;
}

function figuresOf(result: Readonly<Record<string, number>>): Figure[] {
  const late = { atMost: GOALS.latenessMs };
  const rows: readonly (readonly [what: string, key: string, unit: string, goal?: Goal])[] = [
    ['all tasks running after', 'launchS', 's'],
    ['machine load average', 'load', ''],
    ['timer delay of an idle process, p99', 'machineLatenessP99Ms', 'ms'],
    ['delay of calls to the ResourceManager, p99 (wire)', 'beatLatenessP99Ms', 'ms', late],
    ['delay of calls to the ResourceManager, maximum', 'beatLatenessMaxMs', 'ms'],
    ['response time of its web server, p99 (outside)', 'answerP99Ms', 'ms', late],
    ['response time of its web server, median', 'answerMedianMs', 'ms'],
    ['response time of its web server, maximum', 'answerMaxMs', 'ms'],
    ['responses above 5 s', 'lostAnswers', '', { atMost: 0 }],
    ['its timer delay, p99 (own report)', 'ownLatenessP99Ms', 'ms', late],
    ['delay of executor heartbeats, p99', 'executorSilenceP99Ms', 'ms', late],
    ['viewers: response time through the proxy, median', 'viewerMedianMs', 'ms'],
    ['viewers: response time through the proxy, p99', 'viewerP99Ms', 'ms'],
    ['viewers: failed requests', 'viewerFailures', ''],
    ['ApplicationMaster resident', 'residentMiB', 'MiB', { atMost: GOALS.residentMiB }],
    ['ApplicationMaster resident, peak since its start', 'residentPeakMiB', 'MiB'],
    ['ApplicationMaster CPU', 'masterCpuCores', 'cores'],
  ];
  return rows.map(([what, key, unit, goal]) => ({ what, value: result[key] ?? 0, unit, goal }));
}

// This call is at the end of the file, because a class can be used only after its definition.
if (isMainThread) {
  await main();
} else {
  observe();
}
