import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import path from 'node:path';
import { frameworkOf } from '../conf/frameworks.ts';
import { CONTAINER_LAYOUT, type FrozenJob, TENSORBOARD_ROLE } from '../conf/job.ts';
import { feedToken } from '../contract/partitions/feed-token.ts';
import type { DoorAddress } from '../contract/partitions/partition-feed.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { KeytabTokens } from '../hadoop/configuration/login/keytab-tokens.ts';
import { type Credentials, findToken, MASTER_TOKEN_KIND } from '../hadoop/rpc/credentials.ts';
import type { Logger } from '../platform/log.ts';
import type { TonyMessages } from '../protos/tony-messages.ts';
import { createStorage } from '../storage/create-storage.ts';
import { decodeJobConnections } from '../storage/s3/s3-connection.ts';
import type { Storage } from '../storage/storage.ts';
import { JobSite } from '../web/job-site.ts';
import type { TensorBoardTarget } from '../web/proxy/tensorboard-target.ts';
import { ScalarReader } from '../web/scalars/scalar-reader.ts';
import { dialTensorBoard } from '../web/tensorboard/secure-channel.ts';
import { LocalNegotiator } from './containers/local-negotiator.ts';
import type { Negotiator } from './containers/negotiator.ts';
import { containerResources, YarnNegotiator } from './containers/yarn-negotiator.ts';
import { Gatekeeper } from './gatekeeper.ts';
import { endMs, heartbeatIntervalMs, leaseMs } from './job/state/timeouts.ts';
import { JobShell, now } from './job-shell.ts';
import { LiveJobView } from './pages/live-job-view.ts';
import { MasterVitals } from './pages/master-vitals.ts';
import { pagesTls } from './pages/pages-tls.ts';
import { viewAccess } from './pages/view-access.ts';
import { JobFiles } from './records/job-files.ts';
import { TaskLogs } from './records/task-logs.ts';
import { ExecutorService, ringKey } from './rpc/executor-service.ts';
import { FeedServer } from './rpc/feed-server.ts';
import { SessionRelay } from './rpc/session-relay.ts';
import { SessionServer } from './rpc/session-server.ts';
import { DurableNotes } from './services/durable-notes.ts';
import type { ProducerEvents } from './services/producer-link.ts';
import { type FeedServerHandle, JobServices } from './services/services.ts';
import type { MasterSettings } from './settings.ts';
import { TokenKeeper } from './token-keeper.ts';

/** Node.js flags that save 20 MiB of memory per executor (measured). The user's program can use this memory instead. */
const EXECUTOR_NODE_FLAGS = [
  '--max-semi-space-size=1',
  '--max-old-space-size=64',
  '--no-opt',
  '--no-sparkplug',
  '--single-threaded',
  '--optimize-for-size',
] as const;
/** Minimum interval in ms at which the services' state is written to HDFS. */
const NOTES_PAUSE_MS = 100;

/** Everything that an attempt creates before it opens any port. */
export type Parts = ReturnType<typeof compose>;

/** Creates and connects this attempt's parts. Does not open ports or register with YARN. */
export function compose(settings: MasterSettings, log: Logger) {
  const { frozen, attempt, host, secrets } = settings;
  const hadoop = frozen.cluster.kind === 'yarn' ? HadoopConfiguration.fromProperties(frozen.cluster.hadoop) : null;
  const { s3 } = secrets;
  const connection = s3 && { s3: decodeJobConnections(Buffer.from(s3.reveal()).toString('utf8')) };
  const storage = createStorage({ hadoop, user: frozen.user, ...connection });
  const job = new JobShell({ frozen, attempt, secrets, command: executorCommand(frozen), log });
  const gone = (): void => {
    const reason = `${frozen.staging} was removed, probably because the job was killed`;
    process.stderr.write(`${reason}\n`);
    job.fence(reason);
  };
  const files = new JobFiles({ ...frozen, storage, attempt, gone, log });

  const vitals = new MasterVitals(host);
  const scalars = new ScalarReader({ storage, dir: frozen.summaryDir, log });
  const logs = new TaskLogs({ frozen, hadoop, logDirs: process.env.LOG_DIRS ?? '' });
  const master = () => vitals.read();
  const view = new LiveJobView({ frozen, attempt, status: job.status, master, scalars, logs, history: files, log, now });
  const tensorboard: TensorBoardTarget = {
    status: () => job.status().tensorboard,
    get connect() {
      const endpoint = this.status().state === 'off' ? null : job.endpointOf(TENSORBOARD_ROLE, 0);
      return endpoint && (() => dialTensorBoard({ ...endpoint, ringKey: ringKey(secrets.jobSecret) }));
    },
  };
  /** The token that a local job's client uses to read the job's pages. */
  const token = randomBytes(32).toString('hex');
  const site = new JobSite({ view, tensorboard, access: viewAccess(frozen, token), log });

  const newestAttempt = () => files.newestAttempt();
  const pauseMs = hadoop === null ? 0 : NOTES_PAUSE_MS;
  const services = new JobServices({
    notes: (content) => new DurableNotes({ storage, staging: frozen.staging, attempt, content, newestAttempt, pauseMs, log }),
    addressed: files.addressed,
    isAlive: job.isAlive,
    hasTrainingEnded: job.hasTrainingEnded,
    openFeedServer: (events) => openFeedServer(settings, files, events, log),
    framework: frameworkOf(frozen.job.framework).services?.openInMaster() ?? null,
    log,
  });
  const { executors, sessions } = createServers(settings, job, services, log);
  const tls = hadoop === null ? null : pagesTls(settings.credentials, hadoop, log);
  const gatekeeper =
    hadoop === null
      ? null
      : new Gatekeeper({
          frozen,
          configuration: hadoop,
          host,
          token: findToken(settings.credentials, MASTER_TOKEN_KIND),
          node: settings.node,
          log,
        });
  const tokens = hadoop?.secure === true ? createTokenKeeper(settings, hadoop, { storage, job, executors, log }) : null;
  const records = { storage, files, vitals, scalars, logs };
  return { settings, log, job, ...records, view, token, site, tls, services, executors, sessions, gatekeeper, tokens };
}

/**
 * Creates the gRPC servers for executors and for the job user's sessions. The session server is null if the job does not permit sessions.
 */
function createServers({ frozen, attempt, secrets }: MasterSettings, job: JobShell, services: JobServices, log: Logger) {
  const isRanked = (name: string): boolean => frozen.job.roles.some((role) => role.name === name && role.kind === 'gang');
  const relay = new SessionRelay({
    runningContainer: job.runningContainer,
    order: (containerId, id) => executors.orderSession(containerId, id),
    log,
  });
  const executors = new ExecutorService({
    ...secrets,
    attempt,
    assignmentOf: job.assignmentOf,
    welcomeFor: (role) => welcomeFor(frozen, role),
    hear: job.hear,
    serve: (call) => services.serve({ ...call, ranked: isRanked(call.role) }),
    join: (containerId, id, stream) => relay.join(containerId, id, stream),
    log,
  });
  const kill = (reason: string): number => {
    job.hear({ type: 'kill', reason });
    return endMs(frozen.job);
  };
  return { executors, sessions: frozen.job.remoteAccess ? new SessionServer({ ...secrets, relay, kill, log }) : null };
}

function createTokenKeeper(
  { frozen, credentials, credentialsFile, folder }: MasterSettings,
  hadoop: HadoopConfiguration,
  { storage, job, executors, log }: { storage: Storage; job: JobShell; executors: ExecutorService; log: Logger },
): TokenKeeper {
  const keytab = frozen.principal && {
    principal: frozen.principal,
    file: path.join(folder, CONTAINER_LAYOUT.keytab),
    cacheFolder: path.join(folder, 'kerberos'),
  };
  const issuer = keytab && new KeytabTokens(keytab, hadoop, frozen.user);
  return new TokenKeeper({
    credentials,
    file: credentialsFile,
    fetch: issuer ? () => issuer.fetch(frozen.fileSystems) : null,
    handOver: (newest) => executors.replaceTokens(newest),
    probe: () => storage.stat(frozen.staging),
    checkpointDir: frozen.checkpointDir,
    hear: job.hear,
    log,
  });
}

/**
 * Creates the negotiator. With YARN, also looks up the size and modification time of job.json in the background, because container launches
 * require them.
 */
export function createNegotiator({ settings, log, job, files, tokens }: Parts): Negotiator {
  const { frozen, attempt, host } = settings;
  const credentials = (): Credentials => tokens?.launchCredentials ?? settings.credentials;
  const { listener } = job;
  return frozen.cluster.kind === 'local'
    ? new LocalNegotiator({ frozen, attempt, listener, log, host })
    : new YarnNegotiator({
        frozen,
        credentials,
        resources: files.staged(CONTAINER_LAYOUT.job).then((job) => containerResources(frozen, job)),
        listener,
        log,
        host,
        progress: job.progress,
      });
}

async function openFeedServer(
  { attempt, host, secrets }: MasterSettings,
  files: JobFiles,
  { opened, received, closed }: ProducerEvents,
  log: Logger,
): Promise<FeedServerHandle> {
  const token = feedToken(secrets.privateKey);
  const server = new FeedServer({ ...secrets, token, log, opened, received, closed });
  const port = await server.listen((await lookup(host)).address);
  const address = { host, port, attempt, token, certificate: Buffer.from(secrets.certificate.reveal()).toString() };
  await files.writeFeedAddress({ ...address, doors: [] });
  log.info({ port }, 'listening for feed producers');
  const writer = latestOnly(async (doors: readonly DoorAddress[]) => await files.writeFeedAddress({ ...address, doors }));
  return { publish: writer, close: () => server.close() };
}

/** Returns a function that runs `action` with the newest value, and never twice at the same time. */
function latestOnly<Value>(action: (value: Value) => Promise<void>): (value: Value) => void {
  let next: { readonly value: Value } | null = null;
  let running = false;
  const run = async (): Promise<void> => {
    running = true;
    while (next !== null) {
      const { value } = next;
      next = null;
      await action(value);
    }
    running = false;
  };
  return (value) => {
    next = { value };
    if (!running) {
      void run();
    }
  };
}

function welcomeFor(frozen: FrozenJob, name: string): Omit<TonyMessages['Welcome'], 'masterAttempt'> {
  const { job } = frozen;
  const role = job.roles.find((each) => each.name === name);
  return {
    intervalMs: heartbeatIntervalMs(job),
    leaseMs: leaseMs(frozen, name),
    command: role?.command ?? '',
    env: { ...job.env, ...role?.env },
  };
}

/**
 * Returns the command that starts an executor. Like the ApplicationMaster, executors use the Node.js version in the job's runtime. If the
 * job does not ship a runtime, they use the Node.js installed on the node.
 */
function executorCommand(frozen: FrozenJob): string {
  const hasRuntime = frozen.resources.some(({ name }) => name === CONTAINER_LAYOUT.runtime);
  const own = frozen.cluster.kind === 'local' ? `'${process.execPath.replaceAll("'", "'\\''")}'` : 'node';
  const node = hasRuntime ? `${CONTAINER_LAYOUT.runtime}/bin/node` : own;
  return [node, ...EXECUTOR_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/task-executor.mjs`].join(' ');
}
