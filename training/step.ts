import type * as tfjs from '@tensorflow/tfjs';
import { clipGradients, clipNumbers } from './clip-gradients.ts';
import { FusedGradients } from './gradients.ts';
import { localGradients } from './local-gradients.ts';
import { FusedOptimizer } from './native/fused-optimizer.ts';
import type { StepClock } from './profile-clock.ts';
import type { Ring } from './ring.ts';
import type { Wire } from './ring-exchange.ts';
import { checkStepOptions, type StepOptions } from './step-options.ts';
import type { LazyValues, StepPart, StepValues } from './step-part.ts';
import { verifyEqual } from './verify-equal.ts';

export interface StepperOptions extends StepOptions {
  /** Numbers that each step is to give beside the loss. */
  readonly metrics?: number;
  /** Numbers of the caller's that each step carries to the other ranks. */
  readonly signals?: number;
  /** How the gradients travel; their sums are of float32 in any case. */
  readonly wire?: Wire;
  readonly clock?: StepClock;
  /** Called in the place of a part without examples. */
  readonly onEmpty?: () => void;
  /** Compared along with the variables that are trained. */
  readonly alsoEqual?: () => readonly tfjs.Variable[];
}

const VERIFY_EVERY_STEPS = 100;
/** Steps whose loss may stay on the backend. */
const MAX_UNREAD = 64;
/** A worker of its own never waits for the network: so often it lets others have the thread. */
const YIELD_MS = 20;
const NO_SIGNALS = new Float32Array(0);

/** Synchronous steps: the gradients of all ranks, averaged, are applied on each of them by the same optimizer. */
export class Stepper {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #optimizer: FusedOptimizer;
  readonly #variables: readonly tfjs.Variable[];
  readonly #options: StepperOptions;
  readonly #fused: FusedGradients | null;
  readonly #verifyEverySteps: number;
  readonly #signalsAt: number;
  #steps = 0;
  /** Oldest first. */
  readonly #unread: LazyValues[] = [];
  #yieldedAt = 0;

  constructor(tf: typeof tfjs, ring: Ring, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[], options: StepperOptions = {}) {
    this.#tf = tf;
    this.#ring = ring;
    this.#optimizer = new FusedOptimizer(tf, optimizer);
    this.#variables = variables;
    this.#options = checkStepOptions(options);
    this.#verifyEverySteps = options.verifyEverySteps ?? VERIFY_EVERY_STEPS;
    this.#signalsAt = (options.metrics ?? 0) + 1;
    const extras = this.#signalsAt + (options.signals ?? 0);
    this.#fused = ring.worldSize === 1 ? null : new FusedGradients(tf, ring, variables, extras, options.wire ?? 'float32');
  }

  /**
   * @param parts this rank's; equally many on all ranks.
   * @param signals replaced by their sums over all ranks.
   * @throws TonyError RANKS_DIFFER, PEER_LOST, RING_MISMATCH.
   */
  async run(parts: readonly StepPart[], signals: Float32Array = NO_SIGNALS): Promise<StepValues> {
    const values = this.#fused === null ? await this.#runAlone(parts) : await this.#runTogether(this.#fused, parts, signals);
    this.#steps++;
    if (this.#verifyEverySteps > 0 && this.#steps % this.#verifyEverySteps === 0) {
      await this.verify();
    }
    return values;
  }

  async #runAlone(parts: readonly StepPart[]): Promise<StepValues> {
    const tf = this.#tf;
    const { clock } = this.#options;
    clock?.enter('compute');
    const { gradients, values } = localGradients(tf, this.#variables, parts);
    clock?.enter('update');
    if (gradients !== null) {
      const named = this.#variables.map(({ name }) => ({ name, tensor: gradients[name] as tfjs.Tensor }));
      const clipped = clipGradients(tf, named, this.#options);
      this.#optimizer.apply(clipped);
      // A variable that the loss does not depend on has none.
      for (const { tensor } of clipped) tensor?.dispose();
    }
    this.#unread.push(values);
    if (this.#unread.length > MAX_UNREAD) {
      this.#unread.shift()?.read();
    }
    const now = performance.now();
    if (now - this.#yieldedAt > YIELD_MS) {
      clock?.enter('other');
      await new Promise<void>((resolve) => setImmediate(resolve));
      this.#yieldedAt = performance.now();
    }
    return values;
  }

  async #runTogether(fused: FusedGradients, parts: readonly StepPart[], signals: Float32Array): Promise<StepValues> {
    const { clock } = this.#options;
    clock?.enter('compute');
    const { gradients, values } = localGradients(this.#tf, this.#variables, parts, this.#options.onEmpty);
    const extras = new Float32Array(this.#signalsAt + signals.length);
    // Gradients have to leave the backend anyway, so this reads four bytes more and waits for nothing.
    extras.set(values.read());
    extras.set(signals, this.#signalsAt);
    fused.load(gradients);
    clock?.enter('exchange');
    await fused.sum(extras);
    clock?.enter('update');
    clipNumbers(fused.numbers, this.#options);
    fused.withTensors((gradients) => this.#optimizer.apply(gradients));
    signals.set(extras.subarray(this.#signalsAt));
    const means = Array.from(extras.subarray(0, this.#signalsAt));
    return { read: () => means, dispose: () => {} };
  }

  /**
   * Compares the variables of all ranks.
   * @throws TonyError RANKS_DIFFER naming the first one that differs, and the ranks.
   */
  async verify(): Promise<void> {
    const variables = [...this.#variables, ...(this.#options.alsoEqual?.() ?? [])];
    await verifyEqual(this.#ring, variables, `after ${this.#steps} steps`);
  }

  /** As `verify`, unless the program does not want it; nothing is compared in a world of one. */
  async verifyIfWanted(): Promise<void> {
    if (this.#verifyEverySteps > 0 && this.#ring.worldSize > 1) {
      await this.verify();
    }
  }

  /** Why steps do not go by native kernels; null when they do. */
  get reasonOfSlowSteps(): string | null {
    return this.#optimizer.reason;
  }

  /** Frees what native kernels hold; variables and the optimizer stay as they are. */
  dispose(): void {
    for (const values of this.#unread.splice(0)) {
      values.read();
    }
    this.#fused?.dispose();
    this.#optimizer.dispose();
  }
}
