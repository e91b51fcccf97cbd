import type { FrozenJob, Role } from '../../../conf/job.ts';
import type { JobResult } from '../../../conf/status.ts';
import { nameOf } from '../job-state.ts';
import { inGang, isElastic, isMember } from '../membership.ts';
import { isChief } from '../ranks.ts';
import { isTensorBoardRole } from '../tensorboard-task.ts';
import { Cluster, type SimulatedContainer, type SimulatedNode } from './cluster.ts';
import { Master, type Storage } from './master.ts';
import { Random } from './random.ts';
import { Timeline } from './timeline.ts';
import { type Manners, Training } from './training.ts';
import { role, trace, violate, type World } from './world.ts';

// A simulated day with faults, determined by a seed: a job, a cluster, and faults during its first minutes. After that no further faults
// occur, and the job must reach the correct end.

export interface Outcome {
  readonly seed: number;
  readonly result: JobResult | null;
  readonly violations: readonly string[];
  readonly trace: readonly string[];
  readonly generations: number;
  readonly attempts: number;
  readonly failures: number;
  /** Number of workers of each generation. */
  readonly sizes: readonly number[];
}

const START = 1_700_000_000_000;
const AFTERMATH_MS = 3_000;
const LIMIT_MS = 60 * 60_000;

export function simulate(seed: number, options: { trace?: boolean } = {}): Outcome {
  return new Day(seed, options.trace === true).live();
}

interface Fault {
  readonly name: string;
  /** Running tasks must not be affected. */
  readonly harmless?: true;
  readonly strike: () => void;
}

class Day {
  readonly #seed: number;
  readonly #random: Random;
  readonly #timeline = new Timeline(START);
  readonly #world: World;
  readonly #frozen: FrozenJob;
  readonly #manners: Manners;
  readonly #roomy: boolean;
  readonly #cluster: Cluster;
  readonly #training: Training;
  readonly #storage: Storage = { durable: null, slowUntil: 0 };
  #master: Master;
  #crashes = 0;
  /** Crashes of the ApplicationMaster while it was idle. */
  #earlyCrashes = 0;
  #harm = 0;
  #killed = false;
  #finished: JobResult | null = null;
  readonly #sizes = new Map<number, number>();

  constructor(seed: number, traced: boolean) {
    this.#seed = seed;
    this.#random = new Random(seed);
    const random = this.#random;
    this.#world = {
      timeline: this.#timeline,
      random,
      faultsEnd: START + random.between(5, 120) * 1_000,
      charges: 0,
      ports: 1,
      violations: [],
      trace: traced ? [] : null,
    };
    this.#frozen = inventJob(random);
    const { roles } = this.#frozen.job;
    const least = roles.reduce((sum, each) => sum + each.instances, 0);
    // Initially the cluster may have little more room than the minimum of the elastic job.
    const tasks = roles.some(isElastic) ? least - random.between(0, 3) : least;
    this.#roomy = random.chance(0.93);
    this.#cluster = new Cluster(this.#world, inventNodes(random, this.#roomy, tasks));
    this.#manners = random.pick(['waits', 'waits', 'says so', 'crashes'] as const) ?? 'waits';
    this.#training = new Training(this.#world, {
      servers: roles.reduce((sum, each) => sum + (each.servesParameters ? each.instances : 0), 0),
      work: random.between(2, 40) * (roles.some(isElastic) ? 4_000 : 1_000),
      manners: this.#manners,
      // Run times of tracked tasks outside the gang; some outlive every lease. Parameter servers and TensorBoard run until they are
      // stopped.
      alone: new Map(
        roles
          .filter((each) => each.tracking === 'tracked')
          .map((each) => [each.name, random.between(1, 30) * (random.chance(0.1) ? 15_000 : 1_000)]),
      ),
    });
    this.#master = this.#newMaster(1);
  }

  live(): Outcome {
    this.#planFaults();
    while (this.#finished === null && this.#world.violations.length === 0 && this.#timeline.now < START + LIMIT_MS) {
      if (!this.#timeline.advance()) break;
    }
    // Containers allocated while the job was ending still arrive and must be released.
    const end = this.#timeline.now + AFTERMATH_MS;
    while (this.#finished !== null && this.#timeline.now < end) if (!this.#timeline.advance()) break;
    this.#judge();
    const { state } = this.#master;
    return {
      seed: this.#seed,
      result: this.#finished,
      violations: this.#world.violations,
      trace: this.#world.trace ?? [],
      generations: state.generation,
      attempts: this.#master.attempt,
      failures: state.tasks.reduce((sum, task) => sum + task.failures, 0),
      sizes: [...this.#sizes].sort(([a], [b]) => a - b).map(([, size]) => size),
    };
  }

  #newMaster(attempt: number): Master {
    return new Master(this.#world, {
      frozen: this.#frozen,
      attempt,
      cluster: this.#cluster,
      training: this.#training,
      storage: this.#storage,
      sizes: this.#sizes,
      current: () => (this.#master.alive ? this.#master : null),
      finished: (result) => {
        this.#finished = result;
        const { durable } = this.#storage;
        if (durable?.result && (durable.result.state !== result.state || durable.result.diagnostics !== result.diagnostics)) {
          violate(this.#world, `finished as ${result.state}, saved as ${durable.result.state}`);
        }
      },
    });
  }

  #planFaults(): void {
    const { random } = this;
    const intensity = random.pick([0, 1, 2, 4, 8, 20]) ?? 0;
    const all = this.#faults();
    const faults = random.chance(0.15) ? all.filter((fault) => fault.harmless === true) : all;
    const span = this.#world.faultsEnd - START;
    for (let n = 0; n < intensity; n++) {
      const fault = random.pick(faults);
      this.#timeline.after(random.between(0, span), () => {
        if (fault === undefined || this.#finished !== null) return;
        trace(this.#world, () => `FAULT  ${fault.name}`);
        if (fault.harmless !== true) this.#harm++;
        fault.strike();
      });
    }
    if (this.#frozen.job.roles.some(isElastic)) this.#planRoom(span);
    this.#cluster.surplusChance = random.pick([0, 0.1, 0.5]) ?? 0;
    if (random.chance(0.3)) this.#cluster.launchFaults = [random.pick(['refused', 'dies', 'mute'] as const) ?? 'refused'];
    if (random.chance(0.1)) this.#cluster.launchFaults.push('refused', 'dies');
    this.#harm += this.#cluster.launchFaults.length;
    if (random.chance(0.03)) {
      this.#timeline.after(random.between(0, span), () => {
        this.#killed = true;
        this.#master.dispatch({ type: 'kill', reason: 'killed by somebody' });
        if (!this.#master.alive) this.#killed = false;
      });
    }
  }

  /** Other applications end, or take free room. */
  #planRoom(span: number): void {
    const { random } = this;
    for (const node of this.#cluster.nodes) {
      const { slots } = node;
      this.#timeline.after(random.between(0, span), () => (node.slots = slots + random.between(0, 4)));
      this.#timeline.after(random.between(0, 2 * span), () => (node.slots = slots));
    }
  }

  get random(): Random {
    return this.#random;
  }

  #faults(): Fault[] {
    const { random } = this;
    const world = this.#world;
    const timeline = this.#timeline;
    const program = () => random.pick([...this.#training.programs]);
    const live = () =>
      random.pick(
        [...this.#cluster.containers.values()].filter(
          (each) => each.phase === 'live' && each.executor?.alive === true && !each.executor.frozen,
        ),
      );
    const aContainer = (charges: number, strike: (each: SimulatedContainer) => void) => () => {
      const each = live();
      if (each === undefined) return;
      world.charges += charges;
      trace(world, () => `       at ${each.container.id}`);
      strike(each);
    };
    // Programs that crash with their peers may be reported before the root cause.
    const { roles } = this.#frozen.job;
    const workers = roles.reduce((sum, each) => sum + (each.ranked ? each.maxInstances : 0), 0);
    // In a ring, the first crash accounts for all others; workers with parameter servers restart individually.
    const hearsay = this.#manners !== 'crashes' ? 0 : roles.some((each) => each.servesParameters) ? workers : 1;
    const oneNodeDown = () => this.#cluster.nodes.some((node) => !node.up || node.cut || node.unmanaged);
    const onNode = (node: SimulatedNode) =>
      [...this.#cluster.containers.values()].filter((each) => each.node === node && each.phase !== 'ended').length;
    const aNode = (strike: (node: SimulatedNode) => void) => () => {
      const node = random.pick(this.#cluster.nodes);
      if (node === undefined || oneNodeDown() || this.#cluster.nodes.length < 2) return;
      world.charges += onNode(node) + hearsay;
      trace(world, () => `       at ${node.name}`);
      strike(node);
    };
    return [
      {
        name: 'program fails',
        strike: () => {
          const victim = program();
          if (victim === undefined) return;
          world.charges += victim.part === 'server' ? 1 + hearsay : 1;
          this.#training.end(victim, 3, '');
        },
      },
      {
        name: 'program is killed',
        strike: () => {
          const victim = program();
          if (victim === undefined) return;
          world.charges += victim.part === 'server' ? 1 + hearsay : 1;
          this.#training.end(victim, -1, 'SIGKILL');
        },
      },
      {
        name: 'program is stopped',
        strike: () => {
          const victim = program();
          if (victim === undefined || victim.stopped) return;
          world.charges += 1 + hearsay;
          this.#training.stop(victim);
        },
      },
      {
        name: 'program loses its peers',
        strike: () => {
          const victim = program();
          if (victim === undefined || victim.part === null || victim.mute || !this.#training.hasPeers(victim)) return;
          // If workers crash because of a silent server, the failing program cannot be determined.
          if (victim.part === 'server' && this.#manners === 'crashes') return;
          world.charges += 1 + hearsay;
          this.#training.silence(victim);
        },
      },
      { name: 'program fails at the end', strike: () => this.#training.failAtEnd++ },
      {
        name: 'executor is killed',
        strike: aContainer(1 + hearsay, (each) => {
          each.executor?.die();
          timeline.after(random.between(10, 500), () => this.#cluster.end(each, 'exited', 137));
        }),
      },
      {
        name: 'executor is stopped',
        strike: aContainer(1 + hearsay, (each) => {
          if (each.executor === null) return;
          // A frozen process cannot enforce its lease, so no guarantee holds where its NodeManager cannot end it either.
          if (each.node.cut || each.node.unmanaged) each.executor.die();
          else each.executor.frozen = true;
        }),
      },
      { name: 'memory exceeded', strike: aContainer(1 + hearsay, (each) => this.#endByCluster(each, 'memory-exceeded', -104)) },
      { name: 'preemption', strike: aContainer(hearsay, (each) => this.#endByCluster(each, 'preempted', -102)) },
      { name: 'disks fail', strike: aContainer(hearsay, (each) => this.#endByCluster(each, 'disks-failed', -101)) },
      { name: 'stream breaks', harmless: true, strike: aContainer(0, (each) => each.executor?.stream?.break()) },
      { name: 'stream breaks', harmless: true, strike: aContainer(0, (each) => each.executor?.stream?.break()) },
      { name: 'node crashes', strike: aNode((node) => this.#cluster.crash(node, random.between(1_000, 40_000))) },
      {
        name: 'node is cut off',
        strike: aNode((node) => this.#cluster.cut(node, this.#outageMs(), random.between(5_000, 50_000))),
      },
      {
        name: 'NodeManager dies',
        strike: aNode((node) => this.#cluster.abandon(node, this.#outageMs(), random.between(5_000, 50_000))),
      },
      { name: 'resource manager restarts', harmless: true, strike: () => this.#cluster.restart(random.between(1_000, 15_000)) },
      { name: 'storage is slow', harmless: true, strike: () => (this.#storage.slowUntil = timeline.now + random.between(1_000, 15_000)) },
      { name: 'master is held up', harmless: true, strike: () => this.#master.stall(random.between(500, 20_000)) },
      { name: 'master crashes', harmless: true, strike: () => this.#crashMaster() },
      { name: 'master crashes', harmless: true, strike: () => this.#crashMaster() },
    ];
  }

  /** Some outlive every lease. */
  #outageMs(): number {
    return this.random.chance(0.2) ? this.random.between(100_000, 400_000) : this.random.between(500, 40_000);
  }

  #endByCluster(each: SimulatedContainer, end: 'memory-exceeded' | 'preempted' | 'disks-failed', status: number): void {
    each.fate ??= { end, status };
    if (this.random.chance(0.5)) each.executor?.terminated();
    this.#timeline.after(this.random.between(10, 300), () => this.#cluster.end(each, end, status));
  }

  #crashMaster(): void {
    if (!this.#master.alive || this.#crashes >= 3) return;
    this.#crashes++;
    if (!this.#training.gettingOn) this.#earlyCrashes++;
    // Failures that the crashed attempt had not saved are forgotten, and the next attempt may count them differently.
    this.#world.charges += this.#manners === 'crashes' ? 1 : 0;
    this.#master.crash();
    this.#timeline.after(this.random.between(500, 20_000), () => {
      this.#master = this.#newMaster(this.#master.attempt + 1);
    });
  }

  #judge(): void {
    const world = this.#world;
    const { state } = this.#master;
    const { job } = this.#frozen;
    const result = this.#finished;
    if (world.violations.length > 0) return;
    if (result === null) {
      violate(world, `no end after ${LIMIT_MS / 60_000} minutes`);
      return;
    }
    for (const each of this.#cluster.containers.values()) {
      if (each.phase !== 'ended' && !each.told) violate(world, `${each.container.id} leaks`);
    }
    const failures = state.tasks.reduce((sum, task) => sum + task.failures, 0);
    if (failures > world.charges) violate(world, `${failures} failures were charged, there were ${world.charges}`);
    for (const task of state.tasks) {
      if (isTensorBoardRole(job, task.role)) continue;
      const allowed = task.role.restart.policy === 'never' ? 1 : task.role.restart.maxRestarts + 1;
      if (task.failures > allowed) violate(world, `${task.role.name}:${task.index} failed ${task.failures} times, ${allowed} are allowed`);
    }
    this.#judgeTruth(result);
    const calm = this.#harm === 0 && this.#roomy;
    if (calm && state.generation > 1 + this.#earlyCrashes && !job.roles.some(isElastic))
      violate(world, `generation ${state.generation}, though nothing happened to any task`);
    const needed = job.roles.filter((each) => !isTensorBoardRole(job, each));
    const budget = Math.min(...needed.map((each) => (each.restart.policy === 'never' ? 0 : each.restart.maxRestarts)));
    const mustSucceed =
      this.#roomy && !this.#killed && world.charges <= budget && needed.every((each) => each.restart.policy === 'on-failure');
    if (mustSucceed && result.state !== 'SUCCEEDED') {
      violate(world, `a job that could have succeeded is ${result.state}: ${result.diagnostics}`);
    }
  }

  #judgeTruth(result: JobResult): void {
    const world = this.#world;
    const { state } = this.#master;
    if ((result.state === 'KILLED') !== (this.#killed && result.diagnostics === 'killed by somebody')) {
      if (result.state === 'KILLED') violate(world, 'killed by nobody');
    }
    const tensorBoard = this.#frozen.job.roles.find((each) => isTensorBoardRole(this.#frozen.job, each));
    if (result.state === 'FAILED' && tensorBoard !== undefined && result.diagnostics.includes(`${tensorBoard.name}:0`))
      violate(world, `failed because of ${tensorBoard.name}`);
    if (result.state === 'FAILED' && result.diagnostics.length < 20) violate(world, 'failed without a reason');
    if (result.state === 'FAILED' && Buffer.byteLength(result.diagnostics) > 8_192) violate(world, 'failed with too many words');
    for (const task of state.tasks) {
      // A single task of an elastic role is not a valid reason: the whole role must have failed.
      if (result.state !== 'FAILED' || !isElastic(task.role) || isChief(task)) continue;
      const last = result.diagnostics.startsWith(`${nameOf(task)} failed `) && !result.diagnostics.includes('without a new checkpoint');
      const left = state.tasks.filter((each) => each.role === task.role && each.state !== 'failed' && each.state !== 'lost');
      if (last && left.length >= task.role.instances)
        violate(world, `failed because of ${nameOf(task)}, though ${left.length} others are left`);
    }
    if (result.state !== 'SUCCEEDED') return;
    const deciding =
      this.#frozen.job.success === 'chief'
        ? state.tasks.filter(isChief)
        : state.tasks.filter((task) => task.role.tracking === 'tracked' && (!isElastic(task.role) || isMember(task)));
    if (deciding.length === 0) violate(world, 'succeeded with nobody');
    const generations = new Set<number>();
    for (const task of deciding) {
      const generation = this.#training.succeeded.get(`${task.role.name}:${task.index}`);
      if (generation === undefined) violate(world, `succeeded without ${task.role.name}:${task.index}`);
      else if (inGang(task)) generations.add(generation);
    }
    if (generations.size > 1) violate(world, `succeeded with ranked tasks of generations ${[...generations]}`);
    if (
      this.#frozen.job.success === 'all' &&
      state.tasks.some(
        (task) => task.role.tracking === 'tracked' && !isElastic(task.role) && (task.state === 'failed' || task.state === 'lost'),
      )
    ) {
      violate(world, 'succeeded with a tracked task that failed');
    }
  }
}

function inventJob(random: Random): FrozenJob {
  const maxRestarts = random.between(0, 4);
  const policy = random.chance(0.1) ? ('never' as const) : ('on-failure' as const);
  const restart = { policy, maxRestarts };
  const ranked = random.chance(0.85);
  const roles: Role[] = [role({ name: 'worker', instances: random.between(1, 4), ranked, chief: true, restart })];
  const worker = roles[0] as Role;
  if (ranked && random.chance(0.35)) roles[0] = { ...worker, maxInstances: worker.instances + random.between(1, 4) };
  if (random.chance(0.2)) {
    const leads = random.chance(0.5);
    roles.unshift(role({ name: 'helper', instances: random.between(1, 2), ranked, chief: leads, restart }));
    if (leads) roles[1] = { ...(roles[1] as Role), chief: false };
  }
  if (random.chance(0.4)) roles.push(role({ name: 'evaluator', restart }));
  const serves = ranked && random.chance(0.3);
  if (serves || random.chance(0.2))
    roles.push(role({ name: 'ps', tracking: 'untracked', servesParameters: serves, instances: random.between(1, 2), restart }));
  const sidecar = random.chance(0.4);
  if (sidecar) roles.push(role({ name: 'tensorboard', tracking: 'sidecar', restart }));
  return {
    version: 1,
    applicationId: `application_1_${random.between(1, 9999)}`,
    user: 'somebody',
    submittedAt: START,
    staging: 'file:///staging',
    history: 'file:///history',
    historyShared: false,
    historyUrl: null,
    checkpointDir: 'file:///checkpoints',
    summaryDir: 'file:///summaries',
    outputDir: 'file:///output',
    data: {},
    resources: [],
    roleResources: {},
    cluster: { kind: 'local', directory: '/local' },
    job: {
      name: 'job',
      queue: 'default',
      source: null,
      framework: 'tfjs',
      runtime: 'default',
      data: {},
      env: {},
      roles,
      success: random.chance(0.8) ? 'all' : 'chief',
      gang: { timeoutMs: 60_000 },
      heartbeat: { intervalMs: 1_000, missed: random.between(4, 10) },
      checkpoint: { dir: null, everySteps: 100, keep: 3 },
      // The job's own TensorBoard, or a sidecar that the user defines.
      tensorboard: { logdir: null, serve: sidecar && random.chance(0.7), memoryMb: 1024 },
      strategy: serves ? { type: 'parameter-server', staleness: null } : { type: 'all-reduce', wire: 'float32' },
      timeoutMs: null,
      acls: { view: { users: [], groups: [] }, modify: { users: [], groups: [] } },
      master: { memoryMb: 1024, vcores: 1, nodeLabel: null },
      tags: [],
    },
  };
}

/** Enough room even while one node is down and containers are being stopped; or permanently too little. */
function inventNodes(random: Random, roomy: boolean, tasks: number): SimulatedNode[] {
  const count = random.between(1, 4);
  const slots = roomy ? (count === 1 ? tasks + 4 : Math.ceil((tasks + 4) / (count - 1))) : Math.max(1, Math.floor((tasks - 1) / count));
  return Array.from({ length: count }, (_, at) => ({ name: `node${at + 1}:1`, slots, up: true, cut: false, unmanaged: false }));
}
