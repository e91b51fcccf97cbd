import { appendFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { messageOf } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import type { TonyMessages } from '../protos/tony-messages.ts';
import { type BoundPort, bindFreePort } from './bound-port.ts';
import { createExecutor, type ExecutorAction, type ExecutorEvent, type ExecutorState, reportedState, step } from './executor-machine.ts';
import { type AssignedGpus, assignGpus } from './gpus/assigned-gpus.ts';
import { GpuUsage } from './gpus/gpu-usage.ts';
import { findMaster } from './master/master-address.ts';
import { MasterLink } from './master/master-link.ts';
import { Guard } from './processes/guard.ts';
import { isFailedLoad, Program, START_FAILED } from './program/program.ts';
import { ProgramServices } from './program/program-services.ts';
import { ProgressSoFar, ReportFile } from './program/report-file.ts';
import type { ExecutorSettings } from './program/settings.ts';
import { inheritsPort, prepareRun } from './program/task-folder.ts';
import { TaskSessions } from './sessions/task-sessions.ts';
import { ReportedCurves } from './storage/reported-curves.ts';
import { openStorage } from './storage/storage-services.ts';
import { SyncedFolder, timeToSync } from './synced-folder.ts';

const TICK_MS = 500;
/** Heartbeat interval in ms until an ApplicationMaster sends one. */
const FIRST_INTERVAL_MS = 1_000;

type UntimedEvent = ExecutorEvent extends infer One ? (One extends ExecutorEvent ? Omit<One, 'now'> : never) : never;

interface Run {
  readonly generation: number;
  readonly progress: ProgressSoFar;
  readonly report: ReportFile | null;
  /** Path of a file. If the file exists, the program must store a checkpoint. */
  readonly checkpointOrder: string;
  readonly program: Program | null;
  /** The synchronized folder. The program starts after this folder has received the newest checkpoint. */
  readonly sync: SyncedFolder;
}

/**
 * Runs the executor's state machine. Passes events from sockets, processes and timers to the machine, and carries out the actions that it
 * returns.
 */
export class Executor {
  readonly #settings: ExecutorSettings;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #log: Logger;
  readonly #guard: Guard;
  readonly #link: MasterLink;
  readonly #gpus: GpuUsage;
  readonly #sessions: TaskSessions;
  readonly #services: ProgramServices;
  #state: ExecutorState;
  #port: BoundPort | null = null;
  #run: Run | null = null;
  /** Aborts the preparations for a run whose program has not started yet. */
  #starting: AbortController | null = null;
  /** The task's GPUs. They are the same in all generations. */
  #assignedGpus: AssignedGpus | null = null;
  #welcome: TonyMessages['Welcome'] | null = null;
  #intervalMs = FIRST_INTERVAL_MS;
  #beat: NodeJS.Timeout | null = null;
  #resolveLeft: (exitCode: number) => void = () => {};
  /** Resolves with the exit code when the executor may exit. */
  readonly left: Promise<number>;

  constructor(settings: ExecutorSettings, environment: Readonly<Record<string, string | undefined>>, log: Logger) {
    this.#settings = settings;
    this.#environment = environment;
    this.#log = log;
    this.#state = createExecutor(performance.now(), settings.role.gracePeriodMs);
    this.#gpus = new GpuUsage(settings.role.resources.gpus > 0);
    this.left = new Promise((resolve) => {
      this.#resolveLeft = resolve;
    });
    this.#guard = new Guard(log);
    this.#sessions = new TaskSessions(settings, log);
    this.#link = new MasterLink({
      master: settings.master,
      certificate: settings.certificate,
      privateKey: settings.privateKey,
      hello: () => this.#hello(),
      findMaster: () => findMaster(settings.frozen, log),
      events: {
        welcome: (welcome, hello) => this.#welcomed(welcome, hello),
        message: (message) => this.#received(message),
        lost: () => this.#happened({ type: 'disconnected' }),
        refused: (masterAttempt, reason) => this.#happened({ type: 'refused', masterAttempt, reason }),
      },
      log,
    });
    const notice = (message: string) => this.#run?.progress.add({ type: 'notice', message });
    this.#services = new ProgramServices({ settings, link: this.#link, notice, log });
  }

  /** @throws if no port can be bound */
  async start(): Promise<void> {
    await this.#bind(0);
    this.#link.open();
    setInterval(() => this.#happened({ type: 'tick' }), TICK_MS);
  }

  terminate(exitCode: number, reason: string): void {
    this.#happened({ type: 'terminated', exitCode, reason });
  }

  /** Kills the program after an unexpected error, because the program must not outlive the executor. */
  abandon(): void {
    this.#run?.program?.kill(false);
  }

  #happened(event: UntimedEvent): void {
    const { state, actions } = step(this.#state, { ...event, now: performance.now() } as ExecutorEvent);
    this.#state = state;
    for (const action of actions) {
      this.#perform(action);
    }
  }

  #perform(action: ExecutorAction): void {
    switch (action.type) {
      case 'bind':
        this.#bind(action.generation).catch((error: unknown) => this.terminate(1, `no port can be bound: ${messageOf(error)}`));
        break;
      case 'spawn':
        this.#spawn(action).catch((error: unknown) => {
          const stderrTail = `The program could not be started: ${messageOf(error)}`;
          this.#log.error({ error: messageOf(error) }, 'could not start the program');
          const clock = performance.now();
          this.#happened({ type: 'exited', exit: { generation: action.generation, code: START_FAILED, signal: '', stderrTail, clock } });
        });
        break;
      case 'order-checkpoint':
        void this.#orderCheckpoint();
        break;
      case 'kill':
        this.#kill(action.gently);
        break;
      case 'say-ready':
        this.#link.send({ ready: { generation: action.generation, port: action.port } });
        break;
      case 'say-started':
        this.#link.send({ started: { generation: action.generation, pid: action.pid } });
        break;
      case 'say-exited':
        this.#sayExited(action.exit);
        break;
      case 'say-left':
        this.#link.send({ left: {} });
        break;
      case 'disconnect':
        this.#link.disconnect(action.reason);
        break;
      case 'note':
        this.#log.info({ generation: this.#state.generation }, action.text);
        break;
      case 'leave':
        this.#log.info({ exitCode: action.exitCode }, `leaving: ${action.reason}`);
        void this.#leave(action.exitCode);
        break;
    }
  }

  #kill(gently: boolean): void {
    this.#run?.program?.kill(gently);
    this.#starting?.abort();
    if (this.#state.leaving !== null && !gently) {
      this.#run?.sync.abort();
    } else {
      this.#run?.sync.limit(timeToSync(this.#state, 0));
    }
  }

  async #bind(generation: number): Promise<void> {
    this.#port?.close();
    this.#port = null;
    const port = await bindFreePort(this.#settings.host);
    // Only one port is bound at a time, because the state machine requests the next port only after this event.
    this.#port = port;
    this.#happened({ type: 'bound', generation, port: port.port });
  }

  async #spawn({ generation, members }: Extract<ExecutorAction, { type: 'spawn' }>): Promise<void> {
    const port = this.#port;
    const welcome = this.#welcome;
    if (port === null || welcome === null) {
      throw new Error('the executor has no port or no command');
    }
    const starting = new AbortController();
    this.#starting = starting;
    const inherits = inheritsPort(this.#settings.frozen.job, this.#settings.role);
    const services = await this.#services.open(generation);
    const jobEnvironment = welcome.env;
    const gpuEnvironment = await this.#assignGpus(jobEnvironment, starting.signal);
    const request = { command: welcome.command, generation, members, port: port.port, ...services, jobEnvironment };
    const prepared = await prepareRun(this.#settings, { ...this.#environment, ...gpuEnvironment }, request, (folder, error) =>
      this.#log.warn({ folder, error: messageOf(error) }, 'could not remove the working directory of an earlier program'),
    );
    const { checkpointOrder } = prepared;
    const progress = new ProgressSoFar((at, metrics) => curves.add(at, metrics));
    const { frozen, role } = this.#settings;
    const curves = new ReportedCurves({
      open: () => openStorage(this.#settings),
      dir: frozen.summaryDir,
      run: role.kind === 'gang' ? 'report' : `report-${role.name}`,
      generation,
      onTrouble: (message, about) => progress.add({ type: 'notice', message, ...(about !== undefined && { about }) }),
    });
    const sync = new SyncedFolder(this.#settings, generation, prepared, progress, this.#log);
    const stderr = path.join(this.#settings.logFolder, 'stderr');
    // Mark in the log where the restarted program's output begins.
    if (generation > 1) {
      await appendFile(stderr, `--- generation ${generation} ---\n`);
    }
    const started = await Program.start({
      command: prepared.command,
      folder: prepared.folder,
      environment: prepared.environment,
      stdout: path.join(this.#settings.logFolder, 'stdout'),
      stderr,
      listener: inherits ? port.descriptor : null,
      guard: this.#guard,
      graceMs: this.#settings.role.gracePeriodMs,
      ready: sync.opened,
    }).catch((error: unknown) => {
      sync.abort();
      throw error;
    });
    if (inherits) {
      // The program has inherited the socket and now accepts the connections.
      port.close();
      this.#port = null;
    }
    if (!(started instanceof Program)) {
      this.#run = { generation, progress, report: null, program: null, checkpointOrder, sync };
      sync.abort();
      this.#happened({ type: 'exited', exit: { generation, ...started, clock: performance.now() } });
      return;
    }
    const report = new ReportFile(prepared.reportFile, progress);
    this.#run = { generation, progress, report, program: started, checkpointOrder, sync };
    this.#log.info({ generation, pid: started.pid }, 'the program has started');
    this.#happened({ type: 'started', generation, pid: started.pid });
    this.#sessions.begin(started.tree, prepared);
    void started.ended.then(async (ended) => {
      this.#sessions.end(ended);
      const end = await sync.finish(ended, timeToSync(this.#state, ended.code));
      report.read(true);
      await curves.finish(end.code === 0);
      this.#log.info({ generation, code: end.code, signal: end.signal }, 'the program has ended');
      const clock = started.failedAt ?? performance.now();
      const permanent = end.code !== 0 && (progress.isPermanentFailure || isFailedLoad(end));
      this.#happened({ type: 'exited', exit: { generation, ...end, permanent, clock } });
    });
  }

  async #assignGpus(jobEnvironment: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const { frozen, role } = this.#settings;
    this.#assignedGpus ??= await assignGpus({ job: frozen.job, role, container: this.#environment, jobEnvironment, signal });
    const { claim, environment } = this.#assignedGpus;
    if (claim !== null) {
      this.#log.info(environment, 'assigned GPUs to the task');
      this.#gpus.restrictTo(claim.devices.map(({ name }) => name));
    }
    return environment;
  }

  async #orderCheckpoint(): Promise<void> {
    const run = this.#run;
    if (run === null) {
      return;
    }
    try {
      await writeFile(run.checkpointOrder, '', { mode: 0o600 });
      this.#log.info({ generation: run.generation }, 'ordered the program to store a checkpoint');
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, 'could not order the program to store a checkpoint');
    }
  }

  /** Sends the program's last report before reporting its exit, because the ApplicationMaster needs that report to interpret the exit. */
  #sayExited(exit: TonyMessages['Exited']): void {
    this.#heartbeat(exit.clock);
    this.#link.send({ exited: exit });
  }

  #welcomed(welcome: TonyMessages['Welcome'], reported: TonyMessages['Hello']): void {
    if (this.#welcome !== null && this.#welcome.masterAttempt !== welcome.masterAttempt) {
      this.#services.masterReplaced();
    }
    this.#welcome = welcome;
    this.#happened({ type: 'connected', masterAttempt: welcome.masterAttempt, leaseMs: welcome.leaseMs, reported });
    this.#log.info({ masterAttempt: welcome.masterAttempt }, 'attached to the ApplicationMaster');
    this.#beatEvery(welcome.intervalMs);
  }

  #received(message: TonyMessages['MasterMessage']): void {
    if (message.prepare) {
      this.#happened({ type: 'prepare', generation: message.prepare.generation });
    } else if (message.start) {
      this.#happened({ type: 'start', generation: message.start.generation, members: message.start.members });
    } else if (message.checkpoint) {
      this.#happened({ type: 'checkpoint', generation: message.checkpoint.generation });
    } else if (message.tokens) {
      void this.#replaceTokens(message.tokens.credentials);
    } else if (message.session) {
      this.#sessions.open(this.#link.join(message.session.id));
    } else if (message.stop) {
      this.#happened({ type: 'stop', reason: message.stop.reason, atOnce: message.stop.atOnce });
    }
  }

  async #replaceTokens(credentials: Uint8Array): Promise<void> {
    try {
      await this.#settings.tokens.replace(credentials);
      this.#log.info('received new delegation tokens');
    } catch (error) {
      this.#log.error({ error: messageOf(error) }, 'could not replace the delegation tokens');
    }
  }

  #beatEvery(intervalMs: number): void {
    if (this.#beat !== null && intervalMs === this.#intervalMs) {
      return;
    }
    this.#intervalMs = intervalMs;
    if (this.#beat !== null) {
      clearInterval(this.#beat);
    }
    this.#beat = setInterval(() => {
      if (!this.#link.congested) {
        this.#heartbeat();
      }
    }, intervalMs);
  }

  #heartbeat(clock = this.#clock()): void {
    if (this.#state.link !== 'open') {
      return;
    }
    const run = this.#run;
    run?.report?.read();
    const progress = run?.progress.take() ?? null;
    const sent = this.#link.send({
      heartbeat: {
        generation: run?.generation ?? this.#state.generation,
        usage: this.#usage(run),
        progress,
        clock,
      },
    });
    if (!sent && progress !== null) {
      run?.progress.giveBack(progress);
    }
  }

  /**
   * Returns the time until which the program has not failed, apart from a failure that has been reported. A failure may be reported long
   * after the program's exit, because the last checkpoint is stored first.
   */
  #clock(): number {
    const unreported = this.#state.program?.phase === 'running' ? this.#run?.program?.failedAt : null;
    return unreported ?? performance.now();
  }

  #usage(run: Run | null): TonyMessages['Usage'] | null {
    if (run?.program == null || this.#state.program?.phase !== 'running') {
      return null;
    }
    const now = performance.now();
    return { ...run.program.tree.sample(now), gpus: this.#gpus.sample(now) };
  }

  #hello(): TonyMessages['Hello'] {
    const { containerId, containerProof, role, index, host } = this.#settings;
    const { generation, program, masterAttempt } = this.#state;
    const run = this.#run;
    run?.report?.read();
    const progress = run !== null && run.generation === generation ? run.progress.all() : null;
    return {
      containerId,
      proof: containerProof.reveal(),
      role: role.name,
      index,
      ...reportedState(this.#state),
      host,
      masterAttempt,
      exited: program?.phase === 'ended' ? program.exit : null,
      progress,
      clock: this.#clock(),
    };
  }

  async #leave(exitCode: number): Promise<void> {
    if (this.#beat !== null) {
      clearInterval(this.#beat);
    }
    this.#services.close();
    await this.#link.close();
    this.#guard.close();
    this.#resolveLeft(exitCode);
  }
}
