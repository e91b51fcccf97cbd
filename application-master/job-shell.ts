import { CREDENTIALS, type FrozenJob, type Role } from '../conf/job.ts';
import { describeEntry } from '../conf/status/event-text.ts';
import { type HistoryEntry, isEndState, type JobResult, type JobStatus } from '../conf/status/status.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import type { LaunchSpecification, Negotiator, NegotiatorListener } from './containers/negotiator.ts';
import { assignmentOf, createJob, type MachineState, statusOf, step } from './job/job-machine.ts';
import type { Action, Event, UntimedEvent } from './job/state/events.ts';
import { progressOf } from './job/state/job-progress.ts';
import { hasTrainingEnded } from './job/state/membership.ts';
import { type RunningContainer, runningContainer } from './job/state/running-container.ts';
import type { Snapshot } from './job/state/snapshot-format.ts';
import { heartbeatIntervalMs } from './job/state/timeouts.ts';
import type { JobFiles } from './records/job-files.ts';
import { containerProof, type ExecutorService, ringKey } from './rpc/executor-service.ts';
import type { MasterSecrets } from './settings.ts';

const FINAL_MAX_WAIT_MS = 10_000;

export interface JobShellOptions {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  readonly secrets: MasterSecrets;
  /** Shell command that starts an executor. */
  readonly command: string;
  readonly log: Logger;
}

/** The result of an attempt: the job's final state, or `FENCED` if the attempt no longer manages the job. */
export type AttemptResult = JobResult['state'] | 'fenced';

/** Components that the shell calls. `connect` sets them later, because their constructors need the shell's callbacks. */
export interface Components {
  readonly files: JobFiles;
  readonly executors: ExecutorService;
  readonly negotiator: Negotiator;
  readonly masterAddress: string;
  readonly recorded: (entry: HistoryEntry) => void;
}

/** Runs the job machine: adds the current time to each event, passes the event to the machine, and carries out the resulting actions. */
export class JobShell {
  readonly #options: JobShellOptions;
  #components: Components | null = null;
  #state: MachineState | null = null;
  /** Events that wait until the saved state has been loaded, or until the current actions have been carried out. */
  readonly #waiting: UntimedEvent[] = [];
  #performing = false;
  #ticker: NodeJS.Timeout | null = null;
  #over = false;
  #decision: Promise<{ status: JobStatus; written: boolean }> | null = null;
  #final: JobStatus | null = null;
  #report: (outcome: AttemptResult) => void = () => {};
  /** Resolves when the job has ended or this attempt no longer manages it. */
  readonly ended = new Promise<AttemptResult>((resolve) => {
    this.#report = resolve;
  });

  constructor(options: JobShellOptions) {
    this.#options = options;
  }

  connect(components: Components): void {
    this.#components = components;
  }

  /** Starts the job machine with the state that an earlier attempt saved, or with a new job if `snapshot` is null. */
  begin(snapshot: Snapshot | null): void {
    const { frozen, attempt } = this.#options;
    this.#state = createJob(frozen, snapshot, { attempt, now: now() });
    const pause = Math.min(1000, heartbeatIntervalMs(frozen.job) / 2);
    this.#ticker = setInterval(() => this.hear({ type: 'tick' }), pause);
    this.#drain();
  }

  readonly hear = (event: UntimedEvent): void => {
    if (this.#over) {
      return;
    }
    this.#waiting.push(event);
    this.#drain();
  };

  #drain(): void {
    if (this.#state === null || this.#performing) {
      return;
    }
    this.#performing = true;
    try {
      for (let event = this.#waiting.shift(); event !== undefined && !this.#over; event = this.#waiting.shift()) {
        const { state, actions } = step(this.#state, { ...event, now: now() } as Event);
        this.#state = state;
        for (const action of actions) {
          this.#perform(action);
        }
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#performing = false;
    }
  }

  readonly listener: NegotiatorListener = {
    allocated: (containers) => this.hear({ type: 'allocated', containers }),
    askRefused: (role, message) => this.hear({ type: 'ask-refused', role, message }),
    launchFailed: (containerId, message) => this.hear({ type: 'launch-failed', containerId, message }),
    ended: (containerId, end, exitStatus, diagnostics) => this.hear({ type: 'container-ended', containerId, end, exitStatus, diagnostics }),
    preempting: (containerIds) => this.hear({ type: 'preempting', containerIds }),
    cluster: (nodes, headroom) => this.hear({ type: 'cluster', nodes, headroom }),
    fenced: (message) => this.fence(message),
  };

  readonly assignmentOf = (containerId: string): { role: string; index: number } | null | undefined =>
    this.#state === null ? undefined : assignmentOf(this.#state, containerId);

  /** Returns the address of the task's program, or null if the program is not running. */
  readonly endpointOf = (role: string, index: number): { host: string; port: number } | null => {
    const task = this.#state?.tasks.find((each) => each.role.name === role && each.index === index);
    return task?.state === 'running' && task.executor !== null ? { host: task.executor.host, port: task.executor.port } : null;
  };

  readonly runningContainer = (role: string, index: number): RunningContainer => runningContainer(this.#state?.tasks ?? null, role, index);

  /** Returns true if the training has ended. Before this attempt knows the tasks, the training counts as running. */
  readonly hasTrainingEnded = (): boolean => this.#state !== null && hasTrainingEnded(this.#state);

  /** Returns true if a program from this generation may be running in the container. */
  readonly isAlive = (containerId: string, generation: number): boolean => {
    const slot = this.#state?.byContainer.get(containerId);
    const task = slot === undefined ? undefined : this.#state?.tasks[slot];
    if (this.#state === null) {
      return true;
    }
    if (task === undefined || task.state === 'succeeded' || task.state === 'failed') {
      return false;
    }
    // Until the executor has reattached, its program may be running.
    const program = task.executor?.program ?? null;
    if (task.executor === null) {
      return true;
    }
    return program !== null && program.generation === generation && program.phase !== 'ended';
  };

  readonly status = (): JobStatus => {
    const { frozen, attempt } = this.#options;
    return this.#final ?? statusOf(this.#state ?? createJob(frozen, null, { attempt, now: now() }), now());
  };

  readonly progress = (): number => (this.#state && progressOf(this.#state)) ?? 0;

  /** Ends this attempt without ending the job: another attempt has taken over, or YARN has killed the application. */
  fence(message: string): void {
    if (this.#over) {
      return;
    }
    this.#end();
    this.#options.log.error({ reason: message }, 'this attempt no longer manages the job');
    this.#report('fenced');
  }

  fail(error: unknown): void {
    if (this.#over) {
      return;
    }
    const known = error instanceof TonyError;
    this.#options.log.fatal({ error: error instanceof Error ? error.stack : String(error) }, 'the ApplicationMaster failed');
    const hint = known ? error.hint : new TonyError('INTERNAL', '').hint;
    void this.#finish({ state: 'failed', message: `The ApplicationMaster failed: ${messageOf(error)} ${hint}` });
  }

  /** Ends the job with the result that an earlier attempt stored. */
  async conclude(final: JobStatus): Promise<void> {
    const state = final.state === 'succeeded' || final.state === 'killed' ? final.state : 'failed';
    this.#final = final;
    await this.#finish({ state, message: final.message });
  }

  #perform(action: Action): void {
    const { files, executors, negotiator, recorded } = this.#connected();
    switch (action.type) {
      case 'ask':
        negotiator.ask(action.role, action.count, action.excludedNodes);
        break;
      case 'release':
        negotiator.release(action.containerId);
        break;
      case 'launch':
        negotiator.launch(action.containerId, this.#specification(action.containerId, action.role, action.index));
        break;
      case 'stop-container':
        negotiator.stop(action.containerId);
        break;
      case 'prepare':
        executors.prepare(action.containerId, action.generation);
        break;
      case 'start':
        executors.start(action.containerId, action.generation, action.members);
        break;
      case 'order-checkpoint':
        executors.orderCheckpoint(action.containerId, action.generation);
        break;
      case 'stop-program':
        executors.stop(action.containerId, action.reason, action.atOnce);
        break;
      case 'persist':
        if (action.snapshot.result !== null) {
          this.#saveDecision(action.snapshot, action.snapshot.result);
        } else {
          files.persist(
            action.snapshot,
            ({ revision }) => this.hear({ type: 'persisted', revision }),
            (attempt) => this.fence(`ApplicationMaster attempt ${attempt} has taken over`),
          );
        }
        break;
      case 'record':
        // Omit `attempt`. In history entries, this field counts the task's containers, but in the log it is the number of the
        // ApplicationMaster attempt.
        this.#options.log.info(
          { ...action.entry, at: undefined, attempt: undefined, failure: undefined, detail: describeEntry(action.entry) },
          action.entry.type,
        );
        files.record(action.entry);
        recorded(action.entry);
        break;
      case 'finish':
        void this.#finish(action.result);
        break;
    }
  }

  /** Saves the result in final.json instead of a snapshot. A later attempt reads final.json first and, if it exists, ignores snapshots. */
  #saveDecision({ revision }: Snapshot, result: JobResult): void {
    const decision = this.#decide(result);
    void decision.then(({ written }) => {
      if (written) {
        this.hear({ type: 'persisted', revision });
      }
    });
  }

  #decide(result: JobResult): Promise<{ status: JobStatus; written: boolean }> {
    const status = { ...this.status(), state: result.state, message: result.message, finishedAt: now() };
    this.#decision ??= this.#connected().files.writeFinal(status, FINAL_MAX_WAIT_MS);
    return this.#decision;
  }

  #connected(): Components {
    if (this.#components === null) {
      throw new TonyError('INTERNAL', 'The job started before its connections were open.');
    }
    return this.#components;
  }

  #specification(containerId: string, role: string, index: number): LaunchSpecification {
    const { secrets, command, frozen } = this.#options;
    return {
      command,
      environment: {
        ...pathOf(frozen, role),
        TONY_MASTER: this.#connected().masterAddress,
        TONY_ROLE: role,
        TONY_INDEX: String(index),
      },
      secrets: new Map([
        [CREDENTIALS.certificate, secrets.certificate.reveal()],
        [CREDENTIALS.privateKey, secrets.privateKey.reveal()],
        [CREDENTIALS.ringKey, ringKey(secrets.jobSecret)],
        [CREDENTIALS.containerProof, containerProof(secrets.jobSecret, containerId)],
        ...(secrets.s3 === null ? [] : [[CREDENTIALS.s3, secrets.s3.reveal()] as const]),
      ]),
    };
  }

  #end(): void {
    this.#over = true;
    if (this.#ticker !== null) {
      clearInterval(this.#ticker);
    }
  }

  /**
   * Ends the job: stores the result, reports it to the cluster and removes staging files. If an earlier attempt has already stored a
   * result, that result is kept.
   */
  async #finish(result: JobResult): Promise<void> {
    if (this.#over) {
      return;
    }
    const { log, frozen } = this.#options;
    const decision = this.#final === null ? this.#decide(result) : { status: this.#final };
    this.#end();
    try {
      const { status } = await decision;
      this.#final = status;
      const decided: JobResult = isEndState(status.state) ? { state: status.state, message: status.message } : result;
      const finished = this.#connected().negotiator.finish(decided, frozen.historyUrl ?? '');
      const [unregistered] = await Promise.allSettled([finished, this.#clearAway(frozen.cluster.kind === 'yarn')]);
      if (unregistered.status === 'rejected') {
        log.error({ error: messageOf(unregistered.reason) }, 'could not report to the cluster that the job has ended');
      }
      this.#report(decided.state);
    } catch (error) {
      log.fatal({ error: messageOf(error) }, 'could not finish shutting down the job');
      this.#report(result.state);
    }
  }

  async #clearAway(everything: boolean): Promise<void> {
    const { files } = this.#connected();
    try {
      await files.close();
      await files.removeStaging(everything);
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, 'could not remove the staging folder');
    }
  }
}

/**
 * Returns the PATH in which the shell that starts the executor looks for `node`. The program's other variables are sent in the Welcome
 * message.
 */
function pathOf(frozen: FrozenJob, name: string): { PATH?: string } {
  const role: Role | undefined = frozen.job.roles.find((each) => each.name === name);
  const PATH = role?.env.PATH ?? frozen.job.env.PATH;
  return PATH === undefined ? {} : { PATH };
}

/** Returns the time in ms since the epoch, from a monotonic clock. */
export function now(): number {
  return Math.round(performance.timeOrigin + performance.now());
}
