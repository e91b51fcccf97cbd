import type { FrozenJob } from '../../../conf/job.ts';
import { inGang } from '../../../conf/role-conditions.ts';
import type { JobResult } from '../../../conf/status/status.ts';
import { createJob, type MachineState, step } from '../job-machine.ts';
import type { Action, Event, UntimedEvent } from '../state/events.ts';
import { hasEnded, isOver, nameOf } from '../state/job-state.ts';
import { awaitedTasks, isGivenUp } from '../state/membership.ts';
import { parseSnapshot, type Snapshot } from '../state/snapshot-format.ts';
import { heartbeatIntervalMs, leaseMs } from '../state/timeouts.ts';
import { checkCharge, checkPeak, HoldCheck } from './check-charge.ts';
import type { Cluster } from './cluster.ts';
import { type Endpoint, Executor, type Stream } from './executor.ts';
import type { Training } from './training.ts';
import { trace, violate, type World } from './world.ts';

export interface Storage {
  durable: Snapshot | null;
  slowUntil: number;
}

export interface MasterOptions {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  readonly cluster: Cluster;
  readonly training: Training;
  readonly storage: Storage;
  readonly sizes: Map<number, number>;
  readonly current: () => Endpoint | null;
  readonly finished: (result: JobResult) => void;
}

/** Runs the job machine in the simulation, like JobShell in the ApplicationMaster. */
export class Master implements Endpoint {
  readonly attempt: number;
  state: MachineState;
  alive = true;
  readonly #world: World;
  readonly #options: MasterOptions;
  readonly #streams = new Map<string, Stream>();
  readonly #hold = new HoldCheck();
  #writing: Snapshot | null = null;
  #waiting: Snapshot | null = null;
  #stalled: UntimedEvent[] | null = null;
  #finishes = 0;

  constructor(world: World, options: MasterOptions) {
    this.#world = world;
    this.#options = options;
    this.attempt = options.attempt;
    const { durable } = options.storage;
    const start = { attempt: options.attempt, now: world.timeline.now };
    this.state = createJob(options.frozen, durable && parseSnapshot(JSON.stringify(durable)), start);
    this.#checkRepetition(this.state);
    this.#tick();
    world.timeline.after(world.random.between(50, 1_500), () => this.#register());
  }

  accept(stream: Stream, hello: UntimedEvent, lostRank: number | null): void {
    if (!this.alive || hello.type !== 'hello') {
      stream.break();
      return;
    }
    const { containerId } = hello;
    this.#streams.set(containerId, stream);
    // Deliver the report about a lost rank before the program's exit.
    const exit = lostRank === null ? null : hello.exit;
    this.dispatch(exit === null ? hello : { ...hello, phase: 'running', exit: null });
    if (lostRank !== null) {
      const progress = { step: 1, metrics: {}, checkpointStep: 0, lostRank, notices: [], earlyEnd: null, ending: false };
      this.dispatch({ type: 'heartbeat', containerId, generation: hello.generation, usage: null, progress });
    }
    if (exit !== null) {
      this.dispatch({ type: 'exited', containerId, exit });
    }
  }

  receive(stream: Stream, message: UntimedEvent): void {
    if (this.#streams.get(stream.executor.options.containerId) === stream) {
      this.dispatch(message);
    }
  }

  lost(stream: Stream): void {
    const { containerId } = stream.executor.options;
    if (this.#streams.get(containerId) !== stream) {
      return;
    }
    this.#streams.delete(containerId);
    this.dispatch({ type: 'stream-lost', containerId });
  }

  dispatch(news: UntimedEvent): void {
    if (!this.alive) {
      return;
    }
    if (this.#stalled !== null) {
      this.#stalled.push(news);
      return;
    }
    const event = { ...news, now: this.#world.timeline.now } as Event;
    if (event.type !== 'tick' && event.type !== 'heartbeat') {
      trace(this.#world, () => `event  ${JSON.stringify(news)}`);
    }
    const before = this.state;
    const { state, actions } = step(before, event);
    this.state = state;
    this.#hold.observe(this.#world, state);
    if (before.decision !== null && state.decision?.result !== before.decision.result) {
      violate(this.#world, 'the result was decided twice');
    }
    if (before.gang?.phase !== 'forming') {
      this.#checkRepetition(before);
    }
    for (const action of actions) {
      this.#carryOut(action);
    }
  }

  /** Suspends the process. Events that arrive during the stall are delivered together afterwards. */
  stall(ms: number): void {
    if (this.#stalled !== null) {
      return;
    }
    this.#stalled = [];
    this.#world.timeline.after(ms, () => {
      const late = this.#stalled ?? [];
      this.#stalled = null;
      // After a stall, expired timers may fire before sockets are read.
      if (this.#world.random.chance(0.5)) {
        this.dispatch({ type: 'tick' });
      }
      for (const news of late) {
        this.dispatch(news);
      }
    });
  }

  crash(): void {
    this.alive = false;
    // The cluster does not repeat these reports for the next attempt, so the next attempt may charge a different cause.
    for (const news of this.#stalled ?? []) {
      if (news.type === 'container-ended') {
        this.#world.charges++;
      }
    }
    // A write in flight may still succeed, but not after the next attempt has read the snapshot.
    if (this.#writing !== null && this.#world.random.chance(0.5)) {
      this.#options.storage.durable = this.#writing;
    }
    // A correction that has not been saved is lost, so the next attempt charges the failure again.
    if ((this.#options.storage.durable?.revision ?? 0) < this.state.revisions.newest) {
      this.#world.charges++;
    }
    for (const stream of this.#streams.values()) {
      stream.break();
    }
    this.#options.cluster.unregister();
  }

  #register(): void {
    if (!this.alive) {
      return;
    }
    const { cluster } = this.#options;
    const survivors = cluster.register({
      allocated: (containers) => this.#later({ type: 'allocated', containers }),
      ended: (containerId, end, exitStatus, diagnostics) =>
        this.dispatch({ type: 'container-ended', containerId, end, exitStatus, diagnostics }),
      launchFailed: (containerId, message) => this.dispatch({ type: 'launch-failed', containerId, message }),
    });
    this.dispatch({
      type: 'registered',
      maximum: { 'memory-mb': 8192, vcores: 8 },
      resourceTypes: [],
      countsAll: true,
      queue: 'root.default',
      survivors,
    });
    this.dispatch({ type: 'cluster', nodes: cluster.nodes.length, headroom: {} });
  }

  #later(news: UntimedEvent): void {
    this.#world.timeline.after(this.#world.random.between(0, 100), () => this.dispatch(news));
  }

  #tick(): void {
    if (!this.alive) {
      return;
    }
    if (this.#stalled === null) {
      this.dispatch({ type: 'tick' });
    }
    this.#world.timeline.after(500, () => this.#tick());
  }

  #carryOut(action: Action): void {
    if (action.type !== 'record' && action.type !== 'persist') {
      trace(this.#world, () => `action ${describe(action)}`);
    }
    const { cluster } = this.#options;
    if (this.#finishes > 0 && action.type !== 'release' && action.type !== 'stop-container' && action.type !== 'stop-program') {
      if (action.type !== 'record') {
        violate(this.#world, `${action.type} after the end`);
      }
    }
    switch (action.type) {
      case 'ask':
        this.#checkAsk(action);
        cluster.ask(action.role, action.count, action.excludedNodes);
        break;
      case 'release':
        cluster.release(action.containerId);
        break;
      case 'launch':
        this.#launch(action);
        break;
      case 'stop-container':
        cluster.stop(action.containerId);
        break;
      case 'prepare':
        this.#send(action.containerId, (executor) => executor.prepare(action.generation));
        break;
      case 'start':
        this.#checkDurable(action);
        this.#checkMembers(action);
        this.#send(action.containerId, (executor) => executor.start(action.generation, action.members));
        break;
      case 'order-checkpoint':
        break;
      case 'stop-program': {
        const each = cluster.containers.get(action.containerId);
        if (each !== undefined) {
          each.reported = true;
        }
        this.#send(action.containerId, (executor) => executor.stop(action.atOnce));
        break;
      }
      case 'persist':
        this.#persist(action.snapshot);
        break;
      case 'record':
        trace(this.#world, () => `record ${JSON.stringify(action.entry)}`);
        checkCharge(this.#world, action.entry);
        break;
      case 'finish':
        if (++this.#finishes > 1) {
          violate(this.#world, 'finished twice');
        }
        this.#options.finished(action.result);
        break;
    }
  }

  /** Verifies that a spare role is requested only while all other tasks have containers. */
  #checkAsk({ role, count }: Extract<Action, { type: 'ask' }>): void {
    if (count === 0 || !role.spare) {
      return;
    }
    const without = awaitedTasks(this.state).filter((task) => task.role !== role && !isOver(task) && task.container === null);
    if (without.length > 0) {
      violate(this.#world, `${role.name} is requested while ${without.map(nameOf).join(', ')} had no container`);
    }
  }

  /** Verifies that the gang does not run again after all ranked tasks have ended. */
  #checkRepetition({ tasks }: MachineState): void {
    const ranked = tasks.filter(({ rank }) => rank !== null);
    if (this.state.gang?.phase === 'forming' && this.state.decision === null && ranked.length > 0 && ranked.every(hasEnded)) {
      violate(this.#world, 'the gang is formed again although all ranked tasks had ended');
    }
  }

  #launch(action: Extract<Action, { type: 'launch' }>): void {
    const { cluster, frozen, training, current } = this.#options;
    const { containerId, role, index } = action;
    const { kind, servesParameters, gracePeriodMs } = frozen.job.roles.find(({ name }) => name === role) ?? {
      kind: 'independent',
      servesParameters: false,
      gracePeriodMs: 0,
    };
    cluster.launch(containerId, () => {
      const each = cluster.containers.get(containerId);
      return new Executor(this.#world, {
        containerId,
        role,
        index,
        part: kind === 'gang' ? 'worker' : servesParameters ? 'server' : null,
        intervalMs: heartbeatIntervalMs(frozen.job),
        leaseMs: leaseMs(frozen, role),
        graceMs: gracePeriodMs,
        training,
        master: () => (each === undefined || each.node.cut || !each.node.up ? null : current()),
        exit: (status) => each !== undefined && cluster.end(each, 'exited', status),
      });
    });
    checkPeak(this.#world, frozen.job, cluster);
  }

  #send(containerId: string, deliver: (executor: Executor) => void): void {
    const stream = this.#streams.get(containerId);
    stream?.down(() => deliver(stream.executor));
  }

  /** Verifies that a program starts only after a snapshot that contains the program's container and generation has been stored. */
  #checkDurable(action: Extract<Action, { type: 'start' }>): void {
    const { durable } = this.#options.storage;
    const saved = durable?.tasks.find((task) => task.containerId === action.containerId);
    const self = this.state.tasks.find((task) => task.container?.id === action.containerId);
    if (self === undefined) {
      violate(this.#world, `${action.containerId} is started although it has no task`);
    } else if (saved === undefined || saved.role !== self.role.name || saved.index !== self.index) {
      violate(this.#world, `${action.containerId} is started before it is saved`);
    } else if (inGang(self.role) && (durable?.generation ?? 0) < action.generation) {
      violate(this.#world, `generation ${action.generation} is started before it is saved`);
    }
  }

  /** Verifies that a generation is complete: enough members, the chief first, and all parameter servers. */
  #checkMembers({ containerId, generation, members }: Extract<Action, { type: 'start' }>): void {
    const self = this.state.tasks.find((task) => task.container?.id === containerId);
    if (self === undefined || !inGang(self.role)) {
      return;
    }
    const what = `generation ${generation} is started`;
    const ranked = members.filter((member) => member.taskRank !== null);
    if (ranked.some((member, at) => member.taskRank !== at)) {
      violate(this.#world, `${what} with the ranks ${ranked.map(({ taskRank }) => taskRank)}`);
    }
    this.#options.sizes.set(generation, ranked.length);
    for (const role of this.#options.frozen.job.roles) {
      if (!inGang(role)) {
        continue;
      }
      const own = members.filter((member) => member.role === role.name);
      const givenUp = this.state.tasks.filter((task) => task.role.name === role.name && isGivenUp(task)).length;
      const least = role.instances - (this.#options.frozen.job.successPolicy === 'all' ? 0 : givenUp);
      if (own.length < least || own.length > role.maxInstances) {
        violate(this.#world, `${what} with ${own.length} tasks of role ${role.name}`);
      }
      if (role.servesParameters && own.some(({ port }) => port === 0)) {
        violate(this.#world, `${what} without the address of a server`);
      }
      if (role.chief && role.kind === 'gang' && own.find(({ index }) => index === 0)?.taskRank !== 0) {
        violate(this.#world, `${what} without its chief`);
      }
    }
  }

  #persist(snapshot: Snapshot): void {
    this.#waiting = snapshot;
    if (this.#writing === null) {
      this.#write();
    }
  }

  #write(): void {
    const snapshot = this.#waiting;
    if (snapshot === null) {
      return;
    }
    this.#waiting = null;
    this.#writing = snapshot;
    const { random, timeline } = this.#world;
    const { storage } = this.#options;
    timeline.after(Math.max(random.between(2, 150), storage.slowUntil - timeline.now), () => {
      if (!this.alive) {
        return;
      }
      this.#writing = null;
      storage.durable = snapshot;
      this.dispatch({ type: 'persisted', revision: snapshot.revision });
      this.#write();
    });
  }
}

function describe(action: Action): string {
  return action.type === 'ask' ? `ask ${action.role.name} ${action.count} not on [${action.excludedNodes}]` : JSON.stringify(action);
}
