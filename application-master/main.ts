import { lookup } from 'node:dns/promises';
import { type FrozenJob, PROBE_FLAG } from '../conf/job.ts';
import { onSkippedServer } from '../hadoop/tls/skipped-servers.ts';
import { formatAddress } from '../platform/address.ts';
import { withTimeout } from '../platform/async/deadline.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import { createLogger, type Logger } from '../platform/log.ts';
import { WebServer } from '../web/server/server.ts';
import { admissionPolicy } from './admission.ts';
import { compose, createNegotiator, type Parts } from './composition.ts';
import type { Negotiator } from './containers/negotiator.ts';
import type { Gatekeeper } from './gatekeeper.ts';
import type { AttemptResult, JobShell } from './job-shell.ts';
import { readSettings, readSubmittedInputs } from './settings.ts';

/** The option that a client uses to run the ApplicationMaster on the client's own machine. The job ends when the client exits. */
const END_WITH_STDIN = '--end-with-stdin';
const EXIT_CODES: Readonly<Record<AttemptResult, number>> = { succeeded: 0, failed: 1, killed: 1, fenced: 1 };

/** Maximum time in ms that a later attempt waits for new delegation tokens before it starts. */
const FIRST_TOKENS_MS = 30_000;

let log = createLogger({ container: process.env.CONTAINER_ID ?? '' });
/** Null until the job can record an unexpected error as its result. */
let shell: JobShell | null = null;

function fail(error: unknown): void {
  if (shell !== null) {
    shell.fail(error);
    return;
  }
  const hint = error instanceof TonyError ? error.hint : undefined;
  log.fatal({ error: error instanceof TonyError ? undefined : (error as Error).stack, hint }, messageOf(error));
  // YARN displays the last lines of stderr if an ApplicationMaster fails.
  process.stderr.write(`${messageOf(error)}\n${hint ?? ''}\n`);
  process.exit(1);
}

process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
onSkippedServer(({ message, hint }) => log.warn({ hint }, `${message} The ApplicationMaster uses another server.`));

try {
  if (process.argv.includes(PROBE_FLAG)) {
    const { probeNodes } = await import('./probe/probe-run.ts');
    await probeNodes(await readSubmittedInputs(process.env, process.cwd()), log);
    process.exit(0);
  }
  const settings = await readSettings(process.env, process.cwd());
  log = createLogger({ application: settings.frozen.jobId, attempt: settings.attempt });
  log.level = settings.frozen.job.master.logLevel;
  const parts = compose(settings, log);
  const kept = parts.tokens?.start();
  if (settings.attempt > 1 && kept !== undefined) {
    // The tokens with which the job was submitted may have expired.
    await withTimeout(kept, FIRST_TOKENS_MS, () => undefined);
  }
  const connections = await start(parts);
  const outcome = await parts.job.ended;
  await shutDown(parts, connections);
  process.exit(EXIT_CODES[outcome]);
} catch (error) {
  fail(error);
}

interface Connections {
  readonly web: WebServer;
  readonly negotiator: Negotiator;
}

async function start(parts: Parts): Promise<Connections> {
  const { settings, log, job, files, view, executors, sessions, site, token, tls } = parts;
  const { frozen, attempt, host } = settings;
  const { address } = await lookup(host);
  const [port, web, sessionPort] = await Promise.all([
    executors.listen(address),
    WebServer.open({ address, site, log, tls }),
    sessions?.listen(address),
  ]);
  const negotiator = createNegotiator(parts);
  job.connect({ files, executors, negotiator, masterAddress: formatAddress({ host, port }), recorded: (entry) => view.recorded(entry) });
  shell = job;
  endWithThisProcess(job, frozen, log);

  const http = `${tls === null ? 'http' : 'https'}://${formatAddress({ host, port: web.port })}`;
  const isLocal = frozen.cluster.kind === 'local';
  // Publish the address before reading the previous attempt's state, see `JobFiles.persist`.
  const access = sessions === null || sessionPort === undefined ? null : sessions.addressAt(host, sessionPort);
  void files.writeAddress({ host, port, attempt, sessions: access, ...(isLocal && { pid: process.pid, http, token }) });
  void files
    .writeFrozenJob(settings.frozenText)
    .catch((error: unknown) => log.warn({ error: messageOf(error) }, 'could not write job.json to the history'));
  void beginJob(parts, negotiator, { rpcPort: port, trackingUrl: isLocal ? '' : `${http}/` });
  return { web, negotiator };
}

async function beginJob(
  { settings: { attempt, host }, log, job, files, gatekeeper }: Parts,
  negotiator: Negotiator,
  endpoint: { readonly rpcPort: number; readonly trackingUrl: string },
): Promise<void> {
  const registering = negotiator.register({ host, ...endpoint }).catch((error: unknown) => {
    // End this attempt without deciding the job's result, because a later attempt may be able to register.
    process.stderr.write(`${messageOf(error)}\n`);
    job.fence(messageOf(error));
    return null;
  });
  const earlier = attempt > 1 ? files.addressed.then(() => files.recover()) : { final: null, snapshot: null };
  const [registration, { final, snapshot }] = await Promise.all([registering, earlier]);
  if (registration === null) {
    return;
  }
  const { queue, countsAll, survivors } = registration;
  log.info({ host, port: endpoint.rpcPort, queue, survivors: survivors.length }, 'registered');
  if (final !== null) {
    return job.conclude(final);
  }
  job.begin(snapshot);
  if (gatekeeper !== null) {
    // `guard` holds the job before its first `await`, so the job requests no container before the admin's limits permit it.
    void guard(gatekeeper, job, { queue, countsAll }, admissionPolicy(snapshot, survivors.length));
  }
  job.hear({ type: 'registered', ...registration });
}

/** Starts the job once the admin's limits permit it, and enforces the limits while the job runs. */
async function guard(
  gatekeeper: Gatekeeper,
  job: JobShell,
  registration: { readonly queue: string; readonly countsAll: boolean },
  policy: ReturnType<typeof admissionPolicy>,
): Promise<void> {
  if (policy !== null) {
    job.hear({ type: 'held', reason: '' });
    const decision = await gatekeeper.decide(policy, registration, (reason) => job.hear({ type: 'held', reason }));
    if (decision === null) {
      return;
    }
    job.hear(decision.type === 'admitted' ? { type: 'admitted' } : decision);
  }
  await gatekeeper.watch(registration.queue, policy !== null, {
    onLimits: (limits) => job.hear({ type: 'limits', limits }),
    onRefused: (reason) => job.hear({ type: 'refused', reason }),
  });
}

async function shutDown(parts: Parts, { web, negotiator }: Connections): Promise<void> {
  parts.gatekeeper?.close();
  parts.tokens?.close();
  web.close();
  parts.sessions?.close();
  for (const each of [parts.site, parts.view, parts.vitals, parts.scalars, parts.logs, parts.services, parts.executors]) {
    each.close();
  }
  await negotiator.close();
  await parts.files.close();
  parts.storage.close();
}

/** A local job's client sends SIGINT when the user interrupts the job, and SIGTERM when the user kills it. */
function endOfLocalJob(signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP'): string {
  switch (signal) {
    case 'SIGINT':
      return 'The user interrupted the command that ran the job.';
    case 'SIGTERM':
      return 'The user killed the job.';
    case 'SIGHUP':
      return 'The job was killed by SIGHUP.';
  }
}

function endWithThisProcess(job: JobShell, frozen: FrozenJob, log: Logger): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (frozen.cluster.kind === 'local') {
        job.hear({ type: 'kill', reason: endOfLocalJob(signal) });
      } else {
        // Exit without stopping containers. YARN either kills the application with its containers, or starts another attempt, which takes
        // over the containers.
        log.warn(`ended by ${signal}`);
        process.exit(1);
      }
    });
  }
  if (!process.argv.includes(END_WITH_STDIN)) {
    return;
  }
  const onClientExit = (): void => job.hear({ type: 'kill', reason: 'The client that started the job has exited.' });
  process.stdin.on('end', onClientExit).on('error', onClientExit).resume();
}
