import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';
import type { StoredTensor } from '../checkpoint-format.ts';
import type { NamedGradient } from '../gradients.ts';
import { FusedOptimizer } from '../native/fused-optimizer.ts';
import { copyOf } from '../training-state.ts';
import { numbersOf, type Piece } from './layout.ts';
import { makeOptimizer, type OptimizerDescription, setLearningRate } from './optimizer-description.ts';

/** A variable that is trained, as checkpoints and workers name it. */
export interface TrainedVariable {
  /** Its own name, which its slots' names begin with. */
  readonly name: string;
  /** `model:<index>:<name>`. */
  readonly tensor: string;
  readonly shape: readonly number[];
}

export interface ShardDescription {
  readonly variables: readonly TrainedVariable[];
  readonly pieces: readonly Piece[];
  readonly optimizer: OptimizerDescription;
}

/** Something that training changes, with the name that checkpoints have for it; `piece` is null for what is of the optimizer as a whole. */
interface Held {
  readonly name: string;
  readonly variable: tfjs.Variable;
  readonly piece: Piece | null;
}

interface OptimizerSlot {
  readonly originalName: string;
  readonly variable: tfjs.Variable;
}

let created = 0;

/**
 * What one parameter server holds of a model: pieces of its variables as flat variables of its own, and the optimizer that steps them. All
 * of TensorFlow.js's optimizers treat each number by itself, so that pieces come to what the whole would.
 */
export class ServedShard {
  readonly description: ShardDescription;
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  readonly #optimizer: tfjs.Optimizer;
  readonly #fused: FusedOptimizer;
  #weights: readonly Float32Array[] | null = null;
  #steps = 0;
  #retired = false;

  constructor(tf: typeof tfjs, description: ShardDescription) {
    this.#tf = tf;
    this.description = description;
    created++;
    this.#variables = description.pieces.map(({ count }, index) =>
      tf.tidy(() => tf.variable(tf.zeros([count]), true, `served-${created}-${index}`)),
    );
    this.#optimizer = makeOptimizer(tf, description.optimizer);
    this.#fused = new FusedOptimizer(tf, this.#optimizer);
  }

  /** Of all pieces together. */
  get bytes(): number {
    return numbersOf(this.description.pieces) * 4;
  }

  /** Optimizer steps since the very beginning of training. */
  get steps(): number {
    return this.#steps;
  }

  /** @param weights of the pieces one after the other; copied. */
  assign(weights: Float32Array): void {
    const tf = this.#tf;
    this.#weights = null;
    let at = 0;
    for (const variable of this.#variables) {
      const values = weights.slice(at, at + variable.size);
      tf.tidy(() => variable.assign(tf.tensor1d(values)));
      at += variable.size;
    }
  }

  /**
   * One step of the optimizer.
   * @param gradients of the pieces that have one, one after the other; not looked at any more afterwards.
   * @param present which pieces have one; a variable that the loss does not depend on has none.
   */
  apply(gradients: Float32Array, present: readonly boolean[]): void {
    const tf = this.#tf;
    this.#weights = null;
    let at = 0;
    const named = this.#variables.map(({ name, size }, index) => {
      if (!present[index]) {
        return { name, tensor: undefined };
      }
      at += size;
      return { name, tensor: tf.tensor1d(gradients.subarray(at - size, at)) };
    });
    this.#fused.apply(named as NamedGradient[]);
    for (const { tensor } of named) {
      tensor?.dispose();
    }
    this.#steps++;
  }

  /** Bytes of the gradients of these pieces. */
  bytesOf(present: readonly boolean[]): number {
    return numbersOf(this.description.pieces.filter((_, index) => present[index])) * 4;
  }

  /** Of each piece, as it is now; what comes later does not change it. */
  weights(): readonly Float32Array[] {
    this.#weights ??= this.#variables.map((variable) => variable.dataSync() as Float32Array);
    return this.#weights;
  }

  setLearningRate(rate: number): void {
    setLearningRate(this.#optimizer, rate);
  }

  /**
   * Weights and slots as a checkpoint has them; a piece that is not the whole of its variable says where it begins. All as of the moment of
   * the call.
   * @param withScalars the optimizer's own counters too: one server is to write them.
   */
  async capture(withScalars: boolean): Promise<StoredTensor[]> {
    return await Promise.all(
      this.#held().flatMap(({ name, variable, piece }) => (piece === null && !withScalars ? [] : [this.#stored(name, variable, piece)])),
    );
  }

  async #stored(name: string, variable: tfjs.Variable, piece: Piece | null): Promise<StoredTensor> {
    const bytes = await copyOf(this.#tf, variable);
    if (piece === null) {
      return { name, dtype: 'float32', shape: variable.shape, bytes };
    }
    const { shape } = this.description.variables[piece.variable] as TrainedVariable;
    const isWhole = piece.count === sizeOf(shape);
    return { name, dtype: 'float32', shape, bytes, ...(isWhole ? {} : { from: piece.from }) };
  }

  #held(): Held[] {
    const { pieces, variables } = this.description;
    const weights = this.#variables.map((variable, index): Held => {
      const piece = pieces[index] as Piece;
      return { name: (variables[piece.variable] as TrainedVariable).tensor, variable, piece };
    });
    return [...weights, ...Object.entries(this.#optimizer).flatMap(([property, value]) => this.#heldIn(property, value))];
  }

  #heldIn(property: string, value: unknown): Held[] {
    if (value instanceof this.#tf.Variable) {
      return [{ name: `optimizer:${property}`, variable: value, piece: null }];
    }
    return slotsIn(value).map(({ slot, index }) => {
      const piece = this.description.pieces[index] as Piece;
      return { name: this.#slotName(property, slot.originalName, index), variable: slot.variable, piece };
    });
  }

  /** As the optimizer of the whole model would name it. */
  #slotName(property: string, originalName: string, index: number): string {
    const { pieces, variables } = this.description;
    const { variable } = pieces[index] as Piece;
    const suffix = originalName.slice((this.#variables[index] as tfjs.Variable).name.length);
    return `optimizer:${property}:${variable}:${(variables[variable] as TrainedVariable).name}${suffix}`;
  }

  /** Which of a checkpoint's tensors this server needs. */
  namesIn(names: readonly string[]): string[] {
    const { pieces, variables } = this.description;
    const held = new Set(pieces.map(({ variable }) => variable));
    const weights = new Set([...held].map((index) => weightKey((variables[index] as TrainedVariable).tensor)));
    return names.filter((name) => {
      const [kind, , index] = name.split(':');
      return weights.has(weightKey(name)) || (kind === 'optimizer' && (index === undefined || held.has(Number(index))));
    });
  }

  /**
   * @param tensors whole ones, of the names that `namesIn` gave.
   * @throws TonyError CHECKPOINT_MISFIT.
   */
  restore(tensors: readonly StoredTensor[], steps: number, where: string): void {
    const { pieces, variables } = this.description;
    const weights = new Map(tensors.map((tensor) => [weightKey(tensor.name), tensor]));
    const optimizer = this.#optimizer as unknown as Record<string, unknown>;
    const foreign = tensors.find(({ name }) => name.startsWith('optimizer:') && !(String(name.split(':')[1]) in optimizer));
    if (foreign !== undefined) {
      throw misfit(where, `it was trained by another optimizer, with ${foreign.name.split(':')[1]}`);
    }
    for (const [index, piece] of pieces.entries()) {
      const { tensor, shape } = variables[piece.variable] as TrainedVariable;
      const stored = weights.get(weightKey(tensor));
      if (stored?.dtype !== 'float32' || stored.bytes.length !== sizeOf(shape) * 4) {
        throw misfit(where, `${tensor} is not there as float32 [${shape}]`);
      }
      this.#assign(this.#variables[index] as tfjs.Variable, partOf(stored, piece));
    }
    for (const tensor of tensors) {
      const [kind, property = '', variable, ...name] = tensor.name.split(':');
      if (kind === 'optimizer' && variable === undefined) {
        this.#assign(optimizer[property] as tfjs.Variable, numbersIn(tensor.bytes));
      } else if (kind === 'optimizer') {
        this.#restoreSlots(optimizer[property] as (OptimizerSlot | undefined)[], Number(variable), name.join(':'), tensor);
      }
    }
    optimizer.iterations_ = steps;
    this.#steps = steps;
    this.#weights = null;
  }

  #restoreSlots(slots: (OptimizerSlot | undefined)[], variable: number, name: string, tensor: StoredTensor): void {
    const tf = this.#tf;
    const whole = this.description.variables[variable]?.name ?? '';
    // Programs may name their variables otherwise than the one that wrote the checkpoint: the ending is the optimizer's own.
    const suffix = name.startsWith(whole) ? name.slice(whole.length) : name.slice(name.lastIndexOf('/'));
    for (const [index, piece] of this.description.pieces.entries()) {
      if (piece.variable !== variable) {
        continue;
      }
      const values = partOf(tensor, piece);
      const slot = slots[index];
      if (slot === undefined) {
        const originalName = `${(this.#variables[index] as tfjs.Variable).name}${suffix}`;
        slots[index] = { originalName, variable: tf.tidy(() => tf.tensor1d(values).variable(false)) };
      } else {
        this.#assign(slot.variable, values);
      }
    }
  }

  #assign(variable: tfjs.Variable, values: Float32Array): void {
    this.#tf.tidy(() => variable.assign(this.#tf.tensor(values, variable.shape, 'float32')));
  }

  /** Only its weights can be read from now on. */
  retire(): void {
    if (!this.#retired) {
      // Of their own: backends may give views of what is disposed here.
      const weights = this.weights().map((values) => values.slice());
      this.dispose();
      this.#weights = weights;
    }
  }

  dispose(): void {
    if (this.#retired) {
      this.#weights = null;
      return;
    }
    this.#retired = true;
    this.#fused.dispose();
    for (const { variable } of this.#held()) {
      variable.dispose();
    }
  }
}

/** Of a property of an optimizer; those that are there. */
function slotsIn(value: unknown): { readonly slot: OptimizerSlot; readonly index: number }[] {
  const slots = Array.isArray(value) ? (value as (OptimizerSlot | null | undefined)[]) : [];
  return slots.flatMap((slot, index) => (slot?.variable === undefined ? [] : [{ slot, index }]));
}

/** Weights are known by their index: another program may have named its variables otherwise. */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}

/** Of its own memory, and aligned. */
function numbersIn(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}

function partOf(stored: StoredTensor, { from, count }: Piece): Float32Array {
  return numbersIn(stored.bytes.subarray(from * 4, (from + count) * 4));
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

function misfit(where: string, what: string): TonyError {
  return new TonyError('CHECKPOINT_MISFIT', `${where} does not fit this model: ${what}`);
}
