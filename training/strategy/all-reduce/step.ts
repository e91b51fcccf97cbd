import type * as tfjs from '@tensorflow/tfjs';
import { FusedOptimizer } from '../../backend/native/fused-optimizer.ts';
import { ALIGNMENT, MemoryWindow, type WindowPlace } from '../../backend/native/memory-window.ts';
import { nativeKernelsOf } from '../../backend/native/native-kernels.ts';
import { MovingAverages } from '../../model/moving-averages.ts';
import type { LazyValues, StepPart, StepValues } from '../../model/step-part.ts';
import type { NamedGradient } from '../../optimizer/named-gradient.ts';
import type { Ring } from '../../ring/ring.ts';
import type { Wire } from '../../ring/ring-exchange.ts';
import { clipGradients, clipNumbers } from '../clip-gradients.ts';
import { localGradients } from '../local-gradients.ts';
import type { StepClock } from '../profile-clock.ts';
import { checkStepOptions, type StepOptions } from '../step-options.ts';
import { verifyEqual } from './verify-equal.ts';

/**
 * Stores the gradients of all variables and a few extra numbers in one vector in the ring's memory:
 *
 *   | gradient of variable 0 | gradient of variable 1 | ... | extra numbers (loss, metrics, signals) |
 *
 * Each gradient begins at a multiple of ALIGNMENT numbers. The gaps contain zeros. Each rank weights its gradients by its share of the
 * examples, so the sum over the ranks is the mean over the examples. The extra numbers are always sent as float32, even if gradients are
 * sent as float16, because users see them.
 */
class FusedGradients {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #wire: Wire;
  readonly #variables: readonly tfjs.Variable[];
  readonly #places: readonly WindowPlace[];
  readonly #vector: Float32Array<ArrayBuffer>;
  readonly #extrasAt: number;
  /** Gives the backend direct access to the ring's memory. Null if the backend does not support this and gradients must be copied. */
  readonly #window: MemoryWindow | null;

  constructor(tf: typeof tfjs, ring: Ring, variables: readonly tfjs.Variable[], extras: number, wire: Wire) {
    this.#tf = tf;
    this.#ring = ring;
    this.#wire = wire;
    this.#variables = variables;
    let end = 0;
    this.#places = variables.map(({ size, shape }) => {
      const at = end;
      end = aligned(at + size);
      return { at, shape };
    });
    this.#extrasAt = end;
    this.#vector = ring.vector(this.#extrasAt + extras, wire);
    const native = nativeKernelsOf(tf);
    this.#window = native === null ? null : MemoryWindow.open(native, this.#vector, this.#places);
  }

  /**
   * Copies this rank's gradients into the vector and disposes the gradient tensors.
   * @param gradients weighted gradients by variable name, or null if this rank has no examples.
   * @param present receives one number per variable: 1 if this rank has a gradient for the variable, otherwise 0.
   */
  load(gradients: tfjs.NamedTensorMap | null, present: Float32Array): void {
    for (const [index, { name, size, shape }] of this.#variables.entries()) {
      const { at } = this.#places[index] as WindowPlace;
      const gradient = gradients?.[name];
      const isMissing = gradient === undefined || gradient === null;
      present[index] = isMissing ? 0 : 1;
      if (isMissing) {
        this.#vector.fill(0, at, at + size);
        continue;
      }
      if (this.#window !== null && gradient.dtype === 'float32' && this.#tf.util.arraysEqual(gradient.shape, shape)) {
        this.#window.write(index, gradient);
      } else {
        this.#vector.set(gradient.dataSync() as Float32Array, at);
      }
      gradient.dispose();
    }
  }

  /** Sums the loaded gradients over all ranks. @param extras replaced with their sums over all ranks. */
  async sum(extras: Float32Array): Promise<void> {
    const vector = this.#vector;
    if (this.#wire === 'float32') {
      vector.set(extras, this.#extrasAt);
      await this.#ring.allReduce(vector);
      extras.set(vector.subarray(this.#extrasAt));
    } else {
      await Promise.all([this.#ring.allReduce(extras), this.#ring.allReduce(this.numbers, 'sum', this.#wire)]);
    }
  }

  get numbers(): Float32Array<ArrayBuffer> {
    return this.#vector.subarray(0, this.#extrasAt);
  }

  /**
   * Passes the gradients to `use` as tensors. A variable that has no gradient on any rank gets null instead of zeros: with zeros, momentum
   * and decay would still change the variable.
   * @param present the numbers set by `load`, summed over the ranks.
   * @param use must not keep the tensors, because they may share the ring's memory.
   */
  withTensors(present: Float32Array, use: (gradients: readonly NamedGradient[]) => void): void {
    const tensors =
      this.#window?.tensors ?? this.#variables.map((variable, index) => this.#tensorOf(variable, this.#places[index] as WindowPlace));
    use(this.#variables.map(({ name }, index) => ({ name, tensor: present[index] === 0 ? null : (tensors[index] as tfjs.Tensor) })));
    if (this.#window === null) {
      this.#tf.dispose([...tensors]);
    }
  }

  #tensorOf({ size, shape }: tfjs.Variable, { at }: WindowPlace): tfjs.Tensor {
    return this.#tf.tensor(this.#vector.subarray(at, at + size), shape, 'float32');
  }

  dispose(): void {
    this.#window?.dispose();
  }
}

function aligned(numbers: number): number {
  return Math.ceil(numbers / ALIGNMENT) * ALIGNMENT;
}

export interface StepperOptions extends StepOptions {
  /** The number of metrics that each step returns in addition to the loss. Default: 0. */
  readonly metrics?: number;
  /** The number of signals. Signals are numbers that the caller provides and that each step sums over the ranks. Default: 0. */
  readonly signals?: number;
  /** The number format in which gradients are sent. Sums are always computed in float32. */
  readonly wire?: Wire;
  readonly clock?: StepClock;
  readonly onEmpty?: () => void;
  readonly alsoEqual?: () => readonly tfjs.Variable[];
  /**
   * Moving averages that each rank updates from its own examples. Each step replaces them with their mean over the ranks, weighted by each
   * rank's number of examples.
   */
  readonly moving?: readonly tfjs.Variable[];
}

const VERIFY_EVERY_STEPS = 100;
/** The maximum number of steps whose losses may remain on the backend. */
const MAX_UNREAD = 64;
/** The interval in ms at which a single worker yields to the event loop. Several workers yield when they wait for the network. */
const YIELD_MS = 20;
const NO_SIGNALS = new Float32Array(0);

/** Takes synchronous steps. Every rank applies the mean of all ranks' gradients with the same optimizer. */
export class Stepper {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #optimizer: FusedOptimizer;
  readonly #variables: readonly tfjs.Variable[];
  readonly #options: StepperOptions;
  readonly #fused: FusedGradients | null;
  readonly #verifyEverySteps: number;
  readonly #signalsAt: number;
  readonly #moving: MovingAverages;
  #steps = 0;
  #withoutGradient: readonly string[] | null = null;
  /** Losses and metrics that remain on the backend, oldest first. */
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
    this.#moving = new MovingAverages(tf, options.moving ?? []);
    const extras = this.#signalsAt + (options.signals ?? 0) + variables.length + this.#moving.size;
    this.#fused = ring.worldSize === 1 ? null : new FusedGradients(tf, ring, variables, extras, options.wire ?? 'float32');
  }

  /**
   * Takes one step.
   * @param parts this rank's micro-batches. All ranks must pass the same number of parts.
   * @param signals replaced with their sums over all ranks.
   * @throws TonyError RANKS_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  async run(parts: readonly StepPart[], signals: Float32Array = NO_SIGNALS): Promise<StepValues> {
    const values = this.#fused === null ? await this.#runAlone(parts) : await this.#runTogether(this.#fused, parts, signals);
    this.#steps++;
    if (this.#verifyEverySteps > 0 && (this.#steps === 1 || this.#steps % this.#verifyEverySteps === 0)) {
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
      const named = this.#variables.map(({ name }) => ({ name, tensor: gradients[name] ?? null }));
      this.#withoutGradient ??= named.flatMap(({ name, tensor }) => (tensor === null ? [name] : []));
      const clipped = clipGradients(tf, named, this.#options);
      this.#optimizer.apply(clipped);
      for (const { tensor } of clipped) {
        tensor?.dispose();
      }
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
    // Layout: loss and metrics | signals | presence of each variable's gradient (1 or 0) | moving averages
    const presentAt = this.#signalsAt + signals.length;
    const movingAt = presentAt + this.#variables.length;
    const extras = new Float32Array(movingAt + this.#moving.size);
    const present = extras.subarray(presentAt, movingAt);
    const moving = extras.subarray(movingAt);
    // Loading the gradients waits for the backend in any case, so reading the loss and metrics here costs no extra time.
    extras.set(values.read());
    extras.set(signals, this.#signalsAt);
    fused.load(gradients, present);
    this.#moving.read(
      moving,
      parts.reduce((sum, { weight }) => sum + weight, 0),
    );
    clock?.enter('exchange');
    await fused.sum(extras);
    clock?.enter('update');
    this.#withoutGradient ??= this.#variables.flatMap(({ name }, index) => (present[index] === 0 ? [name] : []));
    clipNumbers(fused.numbers, this.#options);
    fused.withTensors(present, (gradients) => this.#optimizer.apply(gradients));
    this.#moving.write(moving);
    signals.set(extras.subarray(this.#signalsAt, presentAt));
    const means = Array.from(extras.subarray(0, this.#signalsAt));
    return { read: () => means, dispose: () => {} };
  }

  /**
   * Compares the variables across ranks.
   * @throws TonyError RANKS_MISMATCH with the first variable that differs, and the ranks.
   */
  async verify(): Promise<void> {
    const variables = [...this.#variables, ...(this.#options.alsoEqual?.() ?? [])];
    await verifyEqual(this.#ring, variables, `after ${this.#steps} steps`);
  }

  /** Compares the variables across ranks, unless the program has disabled verification or there is only one rank. */
  async verifyIfWanted(): Promise<void> {
    if (this.#verifyEverySteps > 0 && this.#ring.worldSize > 1) {
      await this.verify();
    }
  }

  /**
   * The names of the variables that had no gradient on any rank in the first step. Such a variable is frozen, or the loss does not depend
   * on it.
   */
  get withoutGradient(): readonly string[] {
    return this.#withoutGradient ?? [];
  }

  /** The reason why steps do not use native kernels, or null if they do. */
  get reasonOfSlowSteps(): string | null {
    return this.#optimizer.reason;
  }

  /** Frees the memory used by native kernels. Variables and the optimizer keep their state. */
  dispose(): void {
    for (const values of this.#unread.splice(0)) {
      values.read();
    }
    this.#fused?.dispose();
    this.#optimizer.dispose();
  }
}
