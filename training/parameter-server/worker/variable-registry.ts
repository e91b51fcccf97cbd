import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import type { Piece } from '../protocol/layout.ts';

/** An optimizer and its variables. A worker registers them with the servers before the first step that uses them. */
export interface RegisteredOptimizer {
  readonly optimizer: tfjs.Optimizer;
  /** float32 variables, in the order in which gradients are applied. */
  readonly variables: readonly tfjs.Variable[];
  /** The variables to assign to the optimizer now. Default: all variables. */
  readonly given?: readonly tfjs.Variable[];
  /** Each variable's name in checkpoints. */
  readonly tensors?: readonly string[];
  /** Each variable's server index, or null for automatic placement. */
  readonly placed?: readonly (number | null)[];
}

export interface NewEntry {
  readonly entry: RegisteredOptimizer;
  /** The number of the first new variable. New variables are numbered consecutively. */
  readonly first: number;
  readonly variables: readonly tfjs.Variable[];
  readonly optimizer: number;
  readonly joined: readonly tfjs.Variable[];
  readonly numberOf: (variable: tfjs.Variable) => number;
}

export interface RemoteVariable {
  readonly variable: tfjs.Variable;
  /** The variable's piece on each server, or undefined for a server without a piece. */
  readonly pieces: (Piece | undefined)[];
  /** The data ID of the value that last came from the servers. When the program assigns a value, the variable gets a different data ID. */
  data: object;
}

export interface RemoteOptimizer {
  readonly index: number;
  readonly ids: number[];
}

/**
 * Assigns numbers to a worker's variables and optimizers in one run. All workers register them in the same order, so the numbers are the
 * same on all workers.
 */
export class VariableRegistry {
  readonly #tf: typeof tfjs;
  /** The variables by number, in registration order, excluding disposed ones. */
  readonly #variables = new Map<number, RemoteVariable>();
  readonly #numbers = new Map<number, number>();
  #count = 0;
  readonly #optimizers = new WeakMap<tfjs.Optimizer, RemoteOptimizer>();
  /** The optimizers by index. Weak references allow disposed optimizers to be garbage-collected. */
  readonly #live = new Map<number, WeakRef<tfjs.Optimizer>>();
  #optimizerCount = 0;

  constructor(tf: typeof tfjs) {
    this.#tf = tf;
  }

  /** Returns the part of the entry that is not registered yet, or null if the whole entry is registered. */
  newIn(entry: RegisteredOptimizer): NewEntry | null {
    const known = this.#optimizers.get(entry.optimizer);
    const variables = [...new Set(entry.variables)].filter(({ id }) => !this.#numbers.has(id));
    const assigned = new Set(known?.ids);
    const joined = [...new Set(entry.given ?? entry.variables)].filter(({ id }) => !assigned.has(this.#numbers.get(id) ?? -1));
    if (variables.length === 0 && joined.length === 0 && known !== undefined) {
      return null;
    }
    const first = this.#count;
    const added = new Map(variables.map(({ id }, index) => [id, first + index]));
    const numberOf = ({ id }: tfjs.Variable) => (this.#numbers.get(id) ?? added.get(id)) as number;
    const optimizer = known?.index ?? this.#optimizerCount;
    return { entry, first, variables, optimizer, joined, numberOf };
  }

  register({ entry, variables, joined, numberOf }: NewEntry): void {
    const ids = joined.map(numberOf);
    for (const variable of variables) {
      this.#numbers.set(variable.id, this.#count);
      this.#variables.set(this.#count, { variable, pieces: [], data: variable.dataId });
      this.#count++;
    }
    const known = this.#optimizers.get(entry.optimizer);
    if (known === undefined) {
      this.#optimizers.set(entry.optimizer, { index: this.#optimizerCount, ids });
      this.#live.set(this.#optimizerCount, new WeakRef(entry.optimizer));
      this.#optimizerCount++;
    } else {
      known.ids.push(...ids);
    }
  }

  get variables(): ReadonlyMap<number, RemoteVariable> {
    return this.#variables;
  }

  /** @throws TonyError RING_MISMATCH if the variable has been disposed or was never registered. */
  variable(number: number): RemoteVariable {
    const remote = this.#variables.get(number);
    if (remote === undefined) {
      throw new TonyError('RING_MISMATCH', `this worker does not hold variable ${number}`);
    }
    return remote;
  }

  optimizer(optimizer: tfjs.Optimizer): RemoteOptimizer {
    return this.#optimizers.get(optimizer) as RemoteOptimizer;
  }

  liveOptimizers(): tfjs.Optimizer[] {
    return [...this.#live.values()].flatMap((ref) => this.#liveOf(ref) ?? []);
  }

  /**
   * Removes the variables and optimizers disposed by the program since the last call.
   * @returns what was removed, or null if nothing was.
   */
  forgetDisposed(): { variables: number[]; optimizers: number[] } | null {
    const variables = [...this.#variables].filter(([, { variable }]) => variable.isDisposed).map(([number]) => number);
    const optimizers = [...this.#live].filter(([, ref]) => this.#liveOf(ref) === null).map(([index]) => index);
    for (const number of variables) {
      this.#numbers.delete(this.variable(number).variable.id);
      this.#variables.delete(number);
    }
    for (const index of optimizers) {
      this.#live.delete(index);
    }
    if (variables.length > 0) {
      for (const { ids } of this.liveOptimizers().map((optimizer) => this.optimizer(optimizer))) {
        ids.splice(0, ids.length, ...ids.filter((number) => this.#variables.has(number)));
      }
    }
    return variables.length + optimizers.length === 0 ? null : { variables, optimizers };
  }

  /**
   * Returns null for a disposed optimizer, which is recognised by its disposed tensors. An optimizer without tensors counts as alive until
   * it is garbage-collected.
   */
  #liveOf(ref: WeakRef<tfjs.Optimizer>): tfjs.Optimizer | null {
    const optimizer = ref.deref();
    const isDisposed =
      optimizer === undefined || Object.values(optimizer).some((value) => value instanceof this.#tf.Tensor && value.isDisposed);
    return isDisposed ? null : optimizer;
  }
}
