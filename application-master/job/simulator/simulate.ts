import { START } from '../../../conf/job.fixture.ts';
import { type FrozenJob, isTracked } from '../../../conf/job.ts';
import type { JobResult } from '../../../conf/status/status.ts';
import { isElastic } from '../state/membership.ts';
import { checkOutcome } from './check-outcome.ts';
import { Cluster } from './cluster.ts';
import { allFaults } from './faults.ts';
import { inventJob, inventNodes } from './invented-job.ts';
import { Master, type Storage } from './master.ts';
import { Random } from './random.ts';
import { Timeline } from './timeline.ts';
import { type Manners, Training } from './training.ts';
import { trace, violate, type World } from './world.ts';

// Simulates a job on a cluster with random faults, all derived from one seed. Faults occur only in the first minutes. After that, the job
// must end correctly.

export interface Outcome {
  readonly seed: number;
  readonly result: JobResult | null;
  readonly violations: readonly string[];
  readonly trace: readonly string[];
  readonly generations: number;
  readonly attempts: number;
  readonly failures: number;
  readonly sizes: readonly number[];
}

const AFTERMATH_MS = 3_000;
const LIMIT_MS = 60 * 60_000;

export function simulate(seed: number, options: { trace?: boolean } = {}): Outcome {
  return new SimulatedRun(seed, options.trace === true).live();
}

class SimulatedRun {
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
      starts: 0,
      struck: new Map(),
      hasSilencedProgram: false,
      slowestMs: random.pick([800, 800, 2_000]) ?? 800,
      ports: 1,
      violations: [],
      trace: traced ? [] : null,
    };
    this.#frozen = inventJob(random);
    const { roles } = this.#frozen.job;
    const least = roles.reduce((sum, each) => sum + each.instances, 0);
    // An elastic job may start on a cluster that has only slightly more room than the job's minimum.
    const tasks = roles.some(isElastic) ? least - random.between(0, 3) : least;
    this.#roomy = random.chance(0.93);
    this.#cluster = new Cluster(this.#world, inventNodes(random, this.#roomy, tasks));
    this.#manners = random.pick(['waits', 'waits', 'says so', 'crashes'] as const) ?? 'waits';
    this.#training = new Training(this.#world, {
      servers: roles.reduce((sum, each) => sum + (each.servesParameters ? each.instances : 0), 0),
      work: random.between(2, 40) * (roles.some(isElastic) ? 4_000 : 1_000),
      manners: this.#manners,
      // How long tracked tasks outside the gang run. Some are longer than any lease. Parameter servers and sidecars run until they are
      // stopped.
      alone: new Map(roles.filter(isTracked).map((each) => [each.name, random.between(1, 30) * (random.chance(0.1) ? 15_000 : 1_000)])),
    });
    this.#master = this.#newMaster(1);
  }

  live(): Outcome {
    this.#planFaults();
    while (this.#finished === null && this.#world.violations.length === 0 && this.#timeline.now < START + LIMIT_MS) {
      if (!this.#timeline.advance()) {
        break;
      }
    }
    // Containers that were allocated shortly before the job ended still arrive and must be released.
    const end = this.#timeline.now + AFTERMATH_MS;
    while (this.#finished !== null && this.#timeline.now < end) {
      if (!this.#timeline.advance()) {
        break;
      }
    }
    this.#checkOutcome();
    const { state } = this.#master;
    return {
      seed: this.#seed,
      result: this.#finished,
      violations: this.#world.violations,
      trace: this.#world.trace ?? [],
      generations: state.generation,
      attempts: this.#master.attempt,
      failures: state.tasks.reduce((sum, task) => sum + task.failures.charged, 0),
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
        if (durable?.result && (durable.result.state !== result.state || durable.result.message !== result.message)) {
          violate(this.#world, `finished as ${result.state}, saved as ${durable.result.state}`);
        }
      },
    });
  }

  #planFaults(): void {
    const { random } = this.#world;
    const intensity = random.pick([0, 1, 2, 4, 8, 20]) ?? 0;
    const all = allFaults({
      world: this.#world,
      roles: this.#frozen.job.roles,
      training: this.#training,
      manners: this.#manners,
      cluster: this.#cluster,
      storage: this.#storage,
      stallMaster: (ms) => this.#master.stall(ms),
      crashMaster: () => this.#crashMaster(),
    });
    const faults = random.chance(0.15) ? all.filter((fault) => fault.harmless === true) : all;
    const span = this.#world.faultsEnd - START;
    for (let n = 0; n < intensity; n++) {
      const fault = random.pick(faults);
      this.#timeline.after(random.between(0, span), () => {
        if (fault === undefined || this.#finished !== null) {
          return;
        }
        trace(this.#world, () => `FAULT  ${fault.name}`);
        if (fault.harmless !== true) {
          this.#harm++;
        }
        fault.strike();
      });
    }
    if (this.#frozen.job.roles.some(isElastic)) {
      this.#planRoom(span);
    }
    this.#cluster.surplusChance = random.pick([0, 0.1, 0.5]) ?? 0;
    if (random.chance(0.3)) {
      this.#cluster.launchFaults = [random.pick(['refused', 'dies', 'mute'] as const) ?? 'refused'];
    }
    if (random.chance(0.1)) {
      this.#cluster.launchFaults.push('refused', 'dies');
    }
    this.#harm += this.#cluster.launchFaults.length;
    if (random.chance(0.03)) {
      this.#timeline.after(random.between(0, span), () => {
        this.#killed = true;
        this.#master.dispatch({ type: 'kill', reason: 'killed by a user' });
        if (!this.#master.alive) {
          this.#killed = false;
        }
      });
    }
  }

  #planRoom(span: number): void {
    const { random } = this.#world;
    for (const node of this.#cluster.nodes) {
      const { slots } = node;
      this.#timeline.after(random.between(0, span), () => (node.slots = slots + random.between(0, 4)));
      this.#timeline.after(random.between(0, 2 * span), () => (node.slots = slots));
    }
  }

  #crashMaster(): void {
    if (!this.#master.alive || this.#crashes >= 3) {
      return;
    }
    this.#crashes++;
    if (!this.#training.isProgressing) {
      this.#earlyCrashes++;
    }
    // The crashed attempt may not have saved its last failures, so the next attempt may charge them differently.
    this.#world.charges += this.#manners === 'crashes' ? 1 : 0;
    this.#master.crash();
    this.#timeline.after(this.#random.between(500, 20_000), () => {
      this.#master = this.#newMaster(this.#master.attempt + 1);
    });
  }

  #checkOutcome(): void {
    if (this.#world.violations.length > 0) {
      return;
    }
    if (this.#finished === null) {
      violate(this.#world, `the job has not ended after ${LIMIT_MS / 60_000} minutes`);
      return;
    }
    checkOutcome({
      world: this.#world,
      state: this.#master.state,
      result: this.#finished,
      cluster: this.#cluster,
      training: this.#training,
      roomy: this.#roomy,
      killed: this.#killed,
      calm: this.#harm === 0,
      earlyCrashes: this.#earlyCrashes,
    });
  }
}
