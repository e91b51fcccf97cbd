import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import { FusedOptimizer } from '../../backend/native/fused-optimizer.ts';
import type { NamedGradient } from '../../optimizer/named-gradient.ts';
import { learningRateOf, setIterations, setLearningRate } from '../../optimizer/optimizer-members.ts';
import { type OptimizerSlot, OptimizerSlots } from '../../optimizer/optimizer-slots.ts';
import type { Piece } from '../protocol/layout.ts';
import type { StateHead } from '../protocol/messages.ts';
import { makeOptimizer, type OptimizerDescription } from '../protocol/optimizer-description.ts';
import type { ServedVariable } from './served-variable.ts';

/** The part of an optimizer's state that one server holds. */
export interface ServedState {
  readonly head: StateHead;
  /** The slot values, in the order of `head.slots`. */
  readonly numbers: readonly Float32Array[];
}

/** A tensor that stores a slot or a counter. */
export interface HeldTensor {
  readonly property: string;
  readonly tensor: tfjs.Variable;
  /** The slot's variable and piece, or null for a counter. */
  readonly slot: { readonly variable: number; readonly piece: Piece; readonly suffix: string } | null;
}

interface Stepped {
  readonly id: number;
  readonly served: ServedVariable;
  readonly variable: tfjs.Variable;
  readonly piece: Piece;
}

/**
 * One of the program's optimizers on one parameter server, with slots for the pieces on this server. TensorFlow.js optimizers update each
 * number independently, so updating pieces gives the same result as updating whole variables.
 */
export class ServedOptimizer {
  readonly description: OptimizerDescription;
  readonly droppedBy = new Set<number>();
  readonly #tf: typeof tfjs;
  readonly #optimizer: tfjs.Optimizer;
  readonly #fused: FusedOptimizer;
  readonly #slots: OptimizerSlots;
  /** Variables that have a piece on this server. */
  readonly #stepped: Stepped[] = [];
  /** The IDs of all the optimizer's variables, including variables on other servers. */
  readonly #ids = new Set<number>();
  #retired: ServedState | null = null;

  constructor(tf: typeof tfjs, description: OptimizerDescription) {
    this.#tf = tf;
    this.description = description;
    this.#optimizer = makeOptimizer(tf, description);
    this.#fused = new FusedOptimizer(tf, this.#optimizer);
    this.#slots = OptimizerSlots.of(tf, this.#optimizer);
  }

  /** The number of steps that the optimizer has taken since the start of training. */
  get steps(): number {
    return this.#retired?.head.iterations ?? this.#optimizer.iterations;
  }

  has(id: number): boolean {
    return this.#ids.has(id);
  }

  add(id: number, served: ServedVariable): void {
    this.#ids.add(id);
    const { variable, piece } = served;
    if (variable !== null && piece !== null) {
      this.#stepped.push({ id, served, variable, piece });
    }
  }

  /**
   * Removes a variable. Call this method before the variable is disposed. The optimizer keeps the variable's slots until a new variable
   * needs slots.
   */
  remove(id: number): void {
    this.#ids.delete(id);
    const index = this.#stepped.findIndex((each) => each.id === id);
    if (index >= 0) {
      // Native kernels mirror the variable in a resource variable, which must be freed.
      this.#fused.dispose();
      this.#stepped.splice(index, 1);
    }
  }

  /**
   * Takes one step. Variables without a gradient stay unchanged.
   * @param gradients the gradients for the pieces on this server, by variable. The arrays are not used after the call.
   */
  apply(gradients: ReadonlyMap<number, Float32Array>, learningRate: number): void {
    const tf = this.#tf;
    if (learningRate !== learningRateOf(this.#optimizer)) {
      setLearningRate(this.#optimizer, learningRate);
    }
    const named = this.#stepped.map(({ id, variable }) => {
      const gradient = gradients.get(id);
      return { name: variable.name, tensor: gradient === undefined ? undefined : tf.tensor1d(gradient) };
    });
    this.#fused.apply(named as NamedGradient[]);
    for (const { tensor } of named) {
      tensor?.dispose();
    }
    for (const { id, served } of this.#stepped) {
      if (gradients.has(id)) {
        served.changed();
      }
    }
  }

  /** Restores the step count and the counters that the optimizer had before this run. */
  begin({ iterations, scalars }: StateHead): void {
    for (const [property, value] of Object.entries(scalars)) {
      this.setCounter(property, value);
    }
    this.setIterations(iterations);
  }

  /**
   * Sets the slot values. Skips the slots of variables that have no piece on this server.
   * @param numbers the slot values for the pieces on this server. The method copies them.
   */
  setSlots({ slots }: StateHead, numbers: Float32Array): void {
    let at = 0;
    for (const { property, suffix, variable } of slots) {
      const piece = this.#stepped.find(({ id }) => id === variable)?.piece;
      if (piece !== undefined) {
        this.setSlot(property, suffix, variable, numbers.slice(at, at + piece.count));
        at += piece.count;
      }
    }
  }

  setIterations(iterations: number): void {
    setIterations(this.#optimizer, iterations);
  }

  setCounter(property: string, value: number): void {
    const counter = this.#property(property) as tfjs.Variable;
    this.#tf.tidy(() => counter.assign(this.#tf.tensor([value], counter.shape, 'float32')));
  }

  /** @param numbers the piece's values. The slot takes ownership of the array. */
  setSlot(property: string, suffix: string, variable: number, numbers: Float32Array): void {
    this.#property(property);
    const { variable: stepped } = this.#stepped.find(({ id }) => id === variable) as Stepped;
    this.#tf.tidy(() => this.#slots.restore(stepped, property, `${stepped.name}${suffix}`, this.#tf.tensor1d(numbers)));
  }

  keeps(property: string): boolean {
    return property in this.#optimizer;
  }

  state(): ServedState {
    if (this.#retired !== null) {
      return this.#retired;
    }
    const held = this.held();
    const scalars = held.flatMap(({ property, tensor, slot }) =>
      slot === null ? [[property, tensor.dataSync()[0] as number] as const] : [],
    );
    const slots = held.flatMap(({ property, tensor, slot }) => (slot === null ? [] : [{ property, tensor, ...slot }]));
    return {
      head: {
        iterations: this.steps,
        scalars: Object.fromEntries(scalars),
        slots: slots.map(({ property, suffix, variable }) => ({ property, suffix, variable })),
      },
      numbers: slots.map(({ tensor }) => tensor.dataSync() as Float32Array),
    };
  }

  held(): HeldTensor[] {
    const counters = Object.entries(this.#optimizer).flatMap(([property, value]): HeldTensor[] =>
      value instanceof this.#tf.Variable ? [{ property, tensor: value, slot: null }] : [],
    );
    const slots = this.#stepped.flatMap(({ id, variable, piece }) =>
      Array.from(this.#slots.slotsOf(variable), ([property, { originalName, variable: tensor }]): HeldTensor => {
        return { property, tensor, slot: { variable: id, piece, suffix: originalName.slice(variable.name.length) } };
      }),
    );
    return [...counters, ...slots];
  }

  /** Frees the optimizer's memory on the backend. The state remains readable. */
  retire(): void {
    const { head, numbers } = this.state();
    // Copies the arrays, because they may be views of backend memory that is freed below.
    const state = { head, numbers: numbers.map((each) => each.slice()) };
    this.dispose();
    this.#retired = state;
  }

  forgetState(): void {
    if (this.#retired !== null) {
      this.#retired = { head: { ...this.#retired.head, slots: [] }, numbers: [] };
    }
  }

  dispose(): void {
    if (this.#retired !== null) {
      return;
    }
    this.#retired = { head: { iterations: this.steps, scalars: {}, slots: [] }, numbers: [] };
    this.#fused.dispose();
    for (const value of Object.values(this.#optimizer)) {
      const tensors =
        value instanceof this.#tf.Tensor
          ? [value]
          : Array.isArray(value)
            ? (value as (OptimizerSlot | null | undefined)[]).map((slot) => slot?.variable)
            : [];
      for (const tensor of tensors) {
        tensor?.dispose();
      }
    }
  }

  #property(property: string): unknown {
    if (!this.keeps(property)) {
      throw new TonyError('RING_MISMATCH', `the optimizer ${this.description.className} has no property ${property}`);
    }
    return (this.#optimizer as unknown as Record<string, unknown>)[property];
  }
}
