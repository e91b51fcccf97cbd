import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { CONTAINER_LAYOUT, type FrozenJob, type Resource, TENSORBOARD_ROLE } from '../conf/job.ts';
import type { MasterStatus } from '../conf/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import { createLogger, type Logger } from '../platform/log.ts';
import { createStorage } from '../storage/create-storage.ts';
import { joinUri } from '../storage/uri.ts';
import { JobSite } from '../web/job-site.ts';
import { ScalarReader } from '../web/scalars/scalar-reader.ts';
import { WebServer } from '../web/server.ts';
import { admissionPolicy } from './admission/admission.ts';
import { Gatekeeper } from './admission/gatekeeper.ts';
import { LocalNegotiator } from './containers/local-negotiator.ts';
import type { Negotiator } from './containers/negotiator.ts';
import { YarnNegotiator } from './containers/yarn-negotiator.ts';
import { heartbeatIntervalMs, leaseMs } from './job/timeouts.ts';
import { JobShell, now, type Outcome } from './job-shell.ts';
import { LiveJobView } from './pages/live-job-view.ts';
import { LiveTensorBoard } from './pages/live-tensorboard.ts';
import { MasterVitals } from './pages/master-vitals.ts';
import { viewAccess } from './pages/view-access.ts';
import { JobFiles } from './records/job-files.ts';
import { TaskLogs } from './records/task-logs.ts';
import { ExecutorService, ringKey } from './rpc/executor-service.ts';
import { FeedServer, feedToken } from './rpc/feed-server.ts';
import { DurableNotes } from './services/durable-notes.ts';
import { Services } from './services/services.ts';
import { type MasterSettings, readSettings } from './settings.ts';

/** Executors need little memory, and the container's memory belongs to the user. These flags were measured to save 20 MiB. */
const EXECUTOR_NODE_FLAGS = [
  '--max-semi-space-size=1',
  '--max-old-space-size=64',
  '--no-opt',
  '--no-sparkplug',
  '--single-threaded',
  '--optimize-for-size',
] as const;
/** Set by a client that starts the ApplicationMaster on its own machine: the job ends when the client exits. */
const END_WITH_STDIN = '--end-with-stdin';
/** Minimum pause between writes of service promises to HDFS. */
const NOTES_PAUSE_MS = 100;
const EXIT_CODES: Readonly<Record<Outcome['state'], number>> = { SUCCEEDED: 0, FAILED: 1, KILLED: 1, FENCED: 1 };

let log = createLogger({ container: process.env.CONTAINER_ID ?? '' });
let shell: JobShell | null = null;

function fail(error: unknown): void {
  if (shell !== null) {
    shell.fail(error);
    return;
  }
  const hint = error instanceof TonyError ? error.hint : undefined;
  log.fatal({ error: error instanceof TonyError ? undefined : (error as Error).stack, hint }, messageOf(error));
  // YARN shows the last lines of stderr of a failed ApplicationMaster.
  process.stderr.write(`${messageOf(error)}\n${hint ?? ''}\n`);
  process.exit(1);
}

process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

try {
  const settings = await readSettings(process.env, process.cwd());
  log = createLogger({ application: settings.frozen.applicationId, attempt: settings.attempt });
  await run(settings, log);
} catch (error) {
  fail(error);
}

async function run(settings: MasterSettings, log: Logger): Promise<void> {
  const { frozen, attempt, host, secrets } = settings;
  const hadoop = frozen.cluster.kind === 'yarn' ? HadoopConfiguration.fromProperties(frozen.cluster.hadoop) : null;
  const storage = createStorage({ hadoop, user: frozen.user });
  const gone = (): void => {
    const reason = `${frozen.staging} has been removed, as when the job is killed`;
    process.stderr.write(`${reason}\n`);
    job.fence(reason);
  };
  const files = new JobFiles({ ...frozen, storage, attempt, gone, log });
  const token = randomBytes(32).toString('hex');
  let leave: (outcome: Outcome) => void = () => {};
  const left = new Promise<Outcome>((resolve) => {
    leave = resolve;
  });
  const job = new JobShell({
    frozen,
    attempt,
    secrets,
    command: executorCommand(frozen),
    environment: {},
    files,
    log,
    recorded: (entry) => view.recorded(entry),
    ended: (outcome) => leave(outcome),
  });
  const vitals = new MasterVitals(host);
  const scalars = new ScalarReader({ storage, dir: frozen.summaryDir, log });
  const logs = new TaskLogs({ frozen, hadoop, logDirs: process.env.LOG_DIRS ?? '' });
  const master = (): MasterStatus => vitals.read();
  const view = new LiveJobView({ frozen, attempt, status: job.status, master, scalars, logs, history: files, log, now });
  const tensorboard = new LiveTensorBoard({
    status: () => job.status().tensorboard,
    endpoint: () => job.endpointOf(TENSORBOARD_ROLE, 0),
    ringKey: ringKey(secrets.jobSecret),
  });
  let say: () => void = () => {};
  const addressed = new Promise<void>((resolve) => {
    say = resolve;
  });
  const gatekeeper = hadoop === null ? null : new Gatekeeper({ frozen, configuration: hadoop, host, node: settings.node, log });
  const services = new Services({
    notes: (content) =>
      new DurableNotes({
        storage,
        staging: frozen.staging,
        attempt,
        content,
        newestAttempt: () => files.newestAttempt(),
        pauseMs: hadoop === null ? 0 : NOTES_PAUSE_MS,
        log,
      }),
    addressed,
    isAlive: job.isAlive,
    openFeedServer: async (feeds) => {
      const feedServer = new FeedServer({
        ...secrets,
        token: feedToken(secrets.jobSecret),
        log,
        opened: feeds.opened,
        said: feeds.said,
        closed: feeds.closed,
      });
      const feedPort = await feedServer.listen((await lookup(host)).address);
      await files.writeFeedAddress({
        host,
        port: feedPort,
        attempt,
        token: feedToken(secrets.jobSecret),
        certificate: Buffer.from(secrets.certificate.reveal()).toString(),
      });
      log.info({ port: feedPort }, 'producers may feed the job');
      return feedServer;
    },
    log,
  });
  const executors = new ExecutorService({
    ...secrets,
    attempt,
    assignmentOf: job.assignmentOf,
    welcomeFor: (name) => {
      const role = frozen.job.roles.find((each) => each.name === name);
      return {
        intervalMs: heartbeatIntervalMs(frozen.job),
        leaseMs: leaseMs(frozen.job),
        command: role?.command ?? '',
        env: { ...frozen.job.env, ...role?.env },
      };
    },
    hear: job.hear,
    serve: (call) => services.serve({ ...call, ranked: frozen.job.roles.some((role) => role.name === call.role && role.ranked) }),
    log,
  });
  const address = (await lookup(host)).address;
  const site = new JobSite({ view, tensorboard, access: viewAccess(frozen, token), log });
  const [port, web] = await Promise.all([executors.listen(address), WebServer.open({ address, site, log })]);
  const negotiator: Negotiator =
    frozen.cluster.kind === 'local'
      ? new LocalNegotiator({ frozen, attempt, listener: job.listener, log, host })
      : new YarnNegotiator({
          frozen,
          credentials: settings.credentials,
          resources: containerResources(frozen, files),
          listener: job.listener,
          log,
          host,
        });
  const bracketed = host.includes(':') ? `[${host}]` : host;
  job.connect({ executors, negotiator, masterAddress: `${bracketed}:${port}` });
  shell = job;
  onEndOfThisProcess(job, frozen, log);

  const http = `http://${bracketed}:${web.port}`;
  const here = { host, port, attempt, ...(frozen.cluster.kind === 'local' && { pid: process.pid, http, token }) };
  // An attempt publishes its address before it reads the previous attempt's state: see JobFiles.persist.
  void files.writeAddress(here).then(say);
  void files
    .writeFrozenJob(settings.frozenText)
    .catch((error: unknown) => log.warn({ error: messageOf(error) }, 'job.json is not in the history'));
  const registered = negotiator
    .register({ host, rpcPort: port, trackingUrl: frozen.cluster.kind === 'yarn' ? `${http}/` : '' })
    .catch((error: unknown) => {
      // Registration failed: this attempt decides nothing, and a later attempt may succeed.
      process.stderr.write(`${messageOf(error)}\n`);
      job.fence(messageOf(error));
      return null;
    });
  const earlier = attempt > 1 ? addressed.then(() => files.recover()) : { final: null, snapshot: null };
  void Promise.all([registered, earlier]).then(([registration, { final, snapshot }]) => {
    if (registration === null) return;
    log.info({ host, port, queue: registration.queue, survivors: registration.survivors.length }, 'registered');
    if (final !== null) return job.conclude(final);
    job.begin(snapshot);
    if (gatekeeper !== null) void guard(gatekeeper, job, registration.queue, admissionPolicy(snapshot, registration.survivors.length));
    job.hear({ type: 'registered', ...registration });
  });

  const { state } = await left;
  gatekeeper?.close();
  web.close();
  site.close();
  for (const each of [view, vitals, scalars, logs]) each.close();
  services.close();
  executors.close();
  await negotiator.close();
  await files.close();
  storage.close();
  process.exit(EXIT_CODES[state]);
}

/** Holds the job until the admin's limits admit it, then enforces the limits while it runs. */
async function guard(gatekeeper: Gatekeeper, job: JobShell, queue: string, judgeJob: ReturnType<typeof admissionPolicy>): Promise<void> {
  if (judgeJob !== null) {
    job.hear({ type: 'held', reason: '' });
    const judgement = await gatekeeper.decide(judgeJob, queue, (reason) => job.hear({ type: 'held', reason }));
    if (judgement === null) return;
    job.hear(judgement.type === 'admitted' ? { type: 'admitted' } : judgement);
  }
  await gatekeeper.watch(queue, judgeJob !== null, {
    onLimits: (limits) => job.hear({ type: 'limits', limits }),
    onRefused: (reason) => job.hear({ type: 'refused', reason }),
  });
}

/**
 * The command that starts an executor, with the same Node.js as the ApplicationMaster: from the runtime if the job ships one, otherwise
 * from the node.
 */
function executorCommand(frozen: FrozenJob): string {
  const hasRuntime = frozen.resources.some(({ name }) => name === CONTAINER_LAYOUT.runtime);
  const own = frozen.cluster.kind === 'local' ? `'${process.execPath.replaceAll("'", "'\\''")}'` : 'node';
  const node = hasRuntime ? `${CONTAINER_LAYOUT.runtime}/bin/node` : own;
  return [node, ...EXECUTOR_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/task-executor.mjs`].join(' ');
}

/** The files that the client listed, and job.json, which cannot list itself. */
async function containerResources(frozen: FrozenJob, files: JobFiles): Promise<readonly Resource[]> {
  const name = CONTAINER_LAYOUT.job;
  const { size, modifiedAt } = await files.staged(name);
  const uri = joinUri(frozen.staging, name);
  return [...frozen.resources, { name, uri, type: 'file', visibility: 'application', size, timestamp: modifiedAt }];
}

/** The client sends SIGINT to a local job when the user interrupts it, and SIGTERM when the user kills the job. */
function endOfLocalJob(signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP'): string {
  return signal === 'SIGINT' ? 'The user interrupted the command that ran the job.' : `The job was killed by ${signal}.`;
}

function onEndOfThisProcess(job: JobShell, frozen: FrozenJob, log: Logger): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (frozen.cluster.kind === 'local') job.hear({ type: 'kill', reason: endOfLocalJob(signal) });
      else {
        // YARN has killed the application and ends its containers itself, or it starts another attempt, which keeps the containers.
        log.warn(`ended by ${signal}`);
        process.exit(1);
      }
    });
  }
  if (!process.argv.includes(END_WITH_STDIN)) return;
  const gone = (): void => job.hear({ type: 'kill', reason: 'The client that started the job has gone.' });
  process.stdin.on('end', gone).on('error', gone).resume();
}
