import { START } from '../../../conf/job.fixture.ts';
import type { FrozenJob } from '../../../conf/job.ts';
import { describeEntry, describeFailure } from '../../../conf/status/event-text.ts';
import type { JobStatus, TaskStatus, Usage } from '../../../conf/status/status.ts';
import type { ContainerEnd } from '../../../hadoop/yarn/container-exit.ts';
import { createJob, type MachineState, statusOf, step } from '../job-machine.ts';
import type { Action, Container, Event, UntimedEvent } from '../state/events.ts';
import { parseSnapshot, type Snapshot } from '../state/snapshot-format.ts';

const RUNNING: Usage = { memoryBytes: 1, cpuCores: 1, gpus: [], stopped: false };

/** Replaces branded number types in `Value` with `number`, because tests write generations as literals. */
type Plain<Value> = Value extends number ? number : Value extends object ? { readonly [Key in keyof Value]: Plain<Value[Key]> } : Value;

/**
 * A job for tests that send events and inspect the machine's actions. Snapshots become durable immediately, and executors send heartbeats
 * unless they are `silent`, so a test contains only the relevant events.
 */
export class JobScenario {
  state: MachineState;
  now = START;
  readonly actions: Action[] = [];
  readonly history: string[] = [];
  snapshot: Snapshot | null = null;
  storageAway = false;
  readonly silent = new Set<string>();
  cpuCores = RUNNING.cpuCores;
  readonly #executors = new Map<string, { generation: number; stopped: boolean }>();
  #clocks: Readonly<Record<string, number>> = {};
  #ids = 0;

  constructor(job: FrozenJob, attempt = 1, snapshot: Snapshot | null = null) {
    this.state = createJob(job, snapshot && parseSnapshot(JSON.stringify(snapshot)), { attempt, now: this.now });
  }

  /** @param clocks the executors' clocks in ms, relative to the ApplicationMaster's clock, by container ID */
  static running(job: FrozenJob, clocks: Readonly<Record<string, number>> = {}): JobScenario {
    const scene = new JobScenario(job);
    scene.#clocks = clocks;
    scene.register();
    scene.serve();
    return scene;
  }

  say(news: Plain<UntimedEvent>): readonly Action[] {
    const { state, actions } = step(this.state, { ...news, now: this.now } as Event);
    this.state = state;
    for (const action of actions) {
      if (action.type === 'record') {
        this.history.push(`${action.entry.type} ${describeEntry(action.entry)}`.trim());
      } else {
        this.actions.push(action);
      }
    }
    for (const action of actions) {
      if (action.type === 'persist' && !this.storageAway) {
        this.save(action.snapshot);
      }
    }
    return actions;
  }

  save(snapshot: Snapshot): void {
    this.snapshot = snapshot;
    this.say({ type: 'persisted', revision: snapshot.revision });
  }

  register(survivors: readonly Container[] = []): void {
    this.say({
      type: 'registered',
      maximum: { 'memory-mb': 8192, vcores: 8, 'yarn.io/gpu': 4 },
      resourceTypes: ['memory-mb', 'vcores', 'yarn.io/gpu'],
      countsAll: true,
      queue: 'root.default',
      survivors,
    });
    this.say({ type: 'cluster', nodes: 3, headroom: { 'memory-mb': 512, vcores: 0 } });
  }

  /** Returns the time on an executor's clock. */
  clock(containerId: string): number {
    return this.now + (this.#clocks[containerId] ?? 0);
  }

  wait(ms: number): void {
    const end = this.now + ms;
    while (this.now < end) {
      this.now = Math.min(end, this.now + 500);
      this.beat();
    }
  }

  /** Makes all executors send a heartbeat, and then lets the machine's timer fire. */
  beat(): void {
    for (const [containerId, { generation, stopped }] of this.#executors) {
      if (this.silent.has(containerId) || this.#task(containerId) === undefined) {
        continue;
      }
      const usage = { ...RUNNING, cpuCores: this.cpuCores, stopped };
      this.say({ type: 'heartbeat', containerId, generation, usage, progress: null, clock: this.clock(containerId) });
    }
    this.say({ type: 'tick' });
  }

  allocate(name: string, node = 'h1:1'): string {
    const id = `${this.state.attempt === 1 ? 'c' : 'd'}${++this.#ids}`;
    this.say({ type: 'allocated', containers: [{ id, role: name, node, nodeHttp: `${node}042`, memoryMb: 1024 }] });
    return id;
  }

  hello(containerId: string, changes: Partial<Extract<Plain<UntimedEvent>, { type: 'hello' }>> = {}): void {
    const task = this.#task(containerId);
    this.#executors.set(containerId, { generation: changes.generation ?? 0, stopped: false });
    this.say({
      type: 'hello',
      containerId,
      role: task?.role.name ?? 'worker',
      index: task?.index ?? 0,
      generation: 0,
      phase: 'idle',
      host: 'h1',
      port: 1000 + Number(containerId.slice(1)),
      exit: null,
      clock: this.clock(containerId),
      ...changes,
    });
  }

  started(containerId: string, generation: number): void {
    this.#executors.set(containerId, { generation, stopped: false });
    this.say({ type: 'started', containerId, generation, pid: 1 });
  }

  ready(containerId: string, generation: number): void {
    this.say({ type: 'ready', containerId, generation, port: 2000 + generation });
  }

  /** Reports an exit. The heartbeats that follow show that no other program has failed before. */
  exit(
    containerId: string,
    code: number,
    options: { signal?: string; stderr?: string; generation?: number; permanent?: boolean } = {},
  ): void {
    const generation = options.generation ?? this.#executors.get(containerId)?.generation ?? 1;
    const { signal = '', stderr = '', permanent = false } = options;
    this.say({
      type: 'exited',
      containerId,
      exit: { generation, code, signal, stderrTail: stderr, permanent, clock: this.clock(containerId) },
    });
    if (code !== 0) {
      this.beat();
    }
  }

  /** Makes a task's program exit with code 0, and then ends the container. */
  leave(name: string): void {
    const containerId = this.container(name);
    this.exit(containerId, 0);
    this.end(containerId, 'exited', 0);
  }

  end(containerId: string, end: ContainerEnd, exitStatus = -100, diagnostics = ''): void {
    this.say({ type: 'container-ended', containerId, end, exitStatus, diagnostics });
  }

  /** Makes all further heartbeats report that the program is suspended by a signal. */
  freeze(containerId: string): void {
    const executor = this.#executors.get(containerId);
    if (executor !== undefined) {
      executor.stopped = true;
    }
  }

  lostPeer(containerId: string, rank: number): void {
    const generation = this.#executors.get(containerId)?.generation ?? 1;
    this.say({
      type: 'heartbeat',
      containerId,
      generation,
      usage: RUNNING,
      progress: { step: 7, metrics: {}, checkpointStep: 0, lostRank: rank, notices: [], earlyEnd: null, ending: false },
    });
  }

  /** Responds to all of the job's requests and orders, including those caused by the responses. */
  serve(): void {
    for (let before = -1; before !== this.actions.length; ) {
      before = this.actions.length;
      for (const task of this.state.tasks) {
        if (this.wanted(task.role.name) > 0 && task.state === 'requested') {
          this.allocate(task.role.name, this.#nodeFor(task.slot, task.role.name));
        }
      }
      for (const { container, executor } of this.state.tasks) {
        if (container !== null && executor === null) {
          this.hello(container.id);
        }
      }
      for (const { container, executor } of this.state.tasks) {
        if (container !== null && executor?.awaiting?.answer === 'ready') {
          this.ready(container.id, this.state.generation + 1);
        }
      }
      for (const { container, executor } of this.state.tasks) {
        if (container !== null && executor?.program?.phase === 'starting') {
          this.started(container.id, executor.program.generation);
        }
      }
    }
  }

  wanted(name: string): number {
    return this.of('ask').findLast((action) => action.role.name === name)?.count ?? 0;
  }

  container(name: string): string {
    const id = this.#named(name)?.containerId;
    if (id === undefined || id === null) {
      throw new Error(`${name} has no container`);
    }
    return id;
  }

  failure(name: string): string {
    const { role, failure } = this.task(name);
    return failure === null ? '' : describeFailure(failure, role);
  }

  task(name: string): TaskStatus {
    const task = this.#named(name);
    if (task === undefined) {
      throw new Error(`no task ${name}`);
    }
    return task;
  }

  status(): JobStatus {
    return statusOf(this.state, this.now);
  }

  of<Type extends Action['type']>(type: Type): Extract<Action, { type: Type }>[] {
    return this.actions.filter((action): action is Extract<Action, { type: Type }> => action.type === type);
  }

  ordered(type: 'release' | 'launch' | 'stop-container' | 'prepare' | 'start' | 'stop-program'): string[] {
    return this.of(type).map((action) => action.containerId);
  }

  get result() {
    return this.of('finish').at(-1)?.result ?? null;
  }

  #nodeFor(slot: number, name: string): string {
    const excluded = this.of('ask').findLast((action) => action.role.name === name)?.excludedNodes ?? [];
    return [0, 1, 2].map((offset) => `h${((slot + offset) % 3) + 1}:1`).find((node) => !excluded.includes(node)) ?? 'h4:1';
  }

  #task(containerId: string) {
    return this.state.tasks.find((task) => task.container?.id === containerId);
  }

  #named(name: string) {
    return this.status().tasks.find((task) => `${task.role}:${task.index}` === name);
  }
}
