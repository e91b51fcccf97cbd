import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../../platform/errors.ts';
import { copyOf, misfit } from '../../model/stored-tensors.ts';
import { weightKey } from '../protocol/keys.ts';
import { numbersOf, type Piece } from '../protocol/layout.ts';
import type { AdditionHead, OptimizerHead } from '../protocol/messages.ts';
import { ServedOptimizer, type ServedState } from './served-optimizer.ts';
import { ServedVariable, sizeOf } from './served-variable.ts';

/** What one parameter server holds in one run: pieces of variables, and the optimizers that update them. */
export class ServedShard {
  readonly #tf: typeof tfjs;
  readonly #inStep: boolean;
  /** The variables that at least one worker holds, by number. */
  readonly #variables = new Map<number, ServedVariable>();
  readonly #optimizers = new Map<number, ServedOptimizer>();
  /** The number of variables added so far, which is also the number of the next variable. Numbers are never reused. */
  #count = 0;
  #retired = false;

  /**
   * @param inStep true for staleness 0. A worker that registers a variable later than other workers then still receives the variable's
   *   initial values.
   */
  constructor(tf: typeof tfjs, inStep: boolean) {
    this.#tf = tf;
    this.#inStep = inStep;
  }

  get retired(): boolean {
    return this.#retired;
  }

  get size(): number {
    return numbersOf([...this.#variables.values()].flatMap(({ piece }) => piece ?? []));
  }

  get count(): number {
    return this.#count;
  }

  /** @throws TonyError RING_MISMATCH if the variable was removed or never added. */
  variable(id: number): ServedVariable {
    const served = this.#variables.get(id);
    if (served === undefined) {
      throw new TonyError('RING_MISMATCH', `the servers no longer hold variable ${id}: all workers that trained it have disposed of it`, {
        hint: 'A replacement worker cannot replay steps whose variables have been disposed of. Make the program resume after these steps.',
      });
    }
    return served;
  }

  optimizer(index: number): ServedOptimizer {
    const optimizer = this.#optimizers.get(index);
    if (optimizer === undefined) {
      throw new TonyError('RING_MISMATCH', `the servers do not hold optimizer ${index}: all workers that used it have disposed of it`);
    }
    return optimizer;
  }

  /** Returns an optimizer's state, with slots for the variables that this rank holds. */
  stateFor(rank: number, index: number): ServedState {
    const { head, numbers } = this.optimizer(index).state();
    const isHeld = head.slots.map(({ variable }) => this.variable(variable).holds(rank));
    return {
      head: { ...head, slots: head.slots.filter((_, slot) => isHeld[slot]) },
      numbers: numbers.filter((_, slot) => isHeld[slot]),
    };
  }

  /** Returns the number of steps that an optimizer has taken, or 0 for an unknown optimizer. */
  stepsOf(index: number): number {
    return this.#optimizers.get(index)?.steps ?? 0;
  }

  /**
   * Returns true if the chief has added these variables and the optimizer, and has assigned the variables in `joined` to this optimizer.
   */
  knows(variables: readonly number[], optimizer: number, joined: readonly number[]): boolean {
    const served = this.#optimizers.get(optimizer);
    return variables.every((id) => id < this.#count) && served !== undefined && joined.every((id) => served.has(id));
  }

  numbersOf({ pieces, optimizers }: AdditionHead, withWeights: boolean): number {
    const own = new Map(pieces.map((piece) => [piece.variable, piece.count]));
    const slots = optimizers.flatMap(({ state }) => state.slots).map(({ variable }) => own.get(variable) ?? this.#countOf(variable));
    return (withWeights ? numbersOf(pieces) : 0) + slots.reduce((sum, count) => sum + count, 0);
  }

  #countOf(variable: number): number {
    return this.#variables.get(variable)?.piece?.count ?? 0;
  }

  /**
   * Adds variables and optimizers. Replaces any variable that already has the same number. Such a variable was added by a chief process
   * that failed before any worker received it.
   * @param numbers the weights of the pieces, unless they come from a checkpoint, followed by the slot values.
   */
  add({ first, variables, pieces, optimizers }: AdditionHead, numbers: Float32Array, withWeights: boolean): void {
    let at = 0;
    const byVariable = new Map(pieces.map((piece) => [piece.variable, piece]));
    for (const [index, described] of variables.entries()) {
      const piece = byVariable.get(first + index) ?? null;
      if (piece !== null && piece.from + piece.count > sizeOf(described.shape)) {
        throw new TonyError('RING_MISMATCH', `a piece is outside of the variable ${described.name}`);
      }
      this.#forgetVariable(first + index);
      const weights = withWeights ? numbers.subarray(at, at + (piece?.count ?? 0)) : null;
      at += weights?.length ?? 0;
      const served = new ServedVariable(this.#tf, described, piece, weights);
      if (!this.#inStep) {
        served.forgetInitial();
      }
      this.#variables.set(first + index, served);
    }
    this.#count = Math.max(this.#count, first + variables.length);
    for (const head of optimizers) {
      const count = head.state.slots.reduce((sum, { variable }) => sum + this.#countOf(variable), 0);
      this.#addOptimizer(head, numbers.subarray(at, at + count));
      at += count;
    }
  }

  #addOptimizer({ index, description, variables, state }: OptimizerHead, numbers: Float32Array): void {
    let optimizer = this.#optimizers.get(index);
    if (optimizer === undefined) {
      optimizer = new ServedOptimizer(this.#tf, description);
      optimizer.begin(state);
      this.#optimizers.set(index, optimizer);
    }
    for (const id of variables) {
      optimizer.remove(id);
      optimizer.add(id, this.variable(id));
    }
    optimizer.setSlots(state, numbers);
  }

  /**
   * Takes one step with one optimizer.
   * @param gradients the gradients of the `present` variables, concatenated and limited to the pieces on this server.
   */
  apply(optimizer: number, present: readonly number[], gradients: Float32Array, learningRate: number): void {
    this.optimizer(optimizer).apply(this.#byVariable(present, gradients), learningRate);
  }

  /** Stores values assigned to variables by the chief's program. */
  assign(variables: readonly number[], numbers: Float32Array, rank: number): void {
    for (const [id, own] of this.#byVariable(variables, numbers)) {
      const served = this.variable(id);
      served.assign(own);
      served.taken(rank);
    }
  }

  #byVariable(ids: readonly number[], numbers: Float32Array): Map<number, Float32Array> {
    let at = 0;
    const pairs: [number, Float32Array][] = [];
    for (const id of ids) {
      const { piece } = this.variable(id);
      if (piece !== null) {
        pairs.push([id, numbers.subarray(at, at + piece.count)]);
        at += piece.count;
      }
    }
    return new Map(pairs);
  }

  bytesOf(ids: readonly number[]): number {
    return ids.reduce((sum, id) => sum + (this.variable(id).piece?.count ?? 0), 0) * 4;
  }

  /**
   * Returns the weights to send to a rank. If `all` is true, returns every weight that the rank holds. Otherwise, returns only the weights
   * that have changed since the last answer.
   */
  take(rank: number, all: boolean): { readonly variables: readonly number[]; readonly numbers: readonly Float32Array[] } {
    const due = [...this.#variables].filter(([, served]) => served.piece !== null && (all ? served.holds(rank) : served.isNewFor(rank)));
    for (const [, served] of due) {
      served.taken(rank);
    }
    return { variables: due.map(([id]) => id), numbers: due.map(([, served]) => served.numbers) };
  }

  /**
   * Records that a rank has disposed these variables and optimizers. Has no effect on a retired shard, because a worker's replacement may
   * replay the run.
   */
  drop(rank: number, variables: readonly number[], optimizers: readonly number[]): void {
    if (this.#retired) {
      return;
    }
    for (const id of variables) {
      this.#variables.get(id)?.droppedBy.add(rank);
    }
    for (const index of optimizers) {
      this.#optimizers.get(index)?.droppedBy.add(rank);
    }
  }

  forget(ranks: readonly number[]): void {
    if (this.#retired || ranks.length === 0) {
      return;
    }
    for (const [id, served] of this.#variables) {
      if (ranks.every((rank) => served.droppedBy.has(rank))) {
        this.#forgetVariable(id);
      } else if (ranks.every((rank) => served.hasEntered(rank))) {
        served.forgetInitial();
      }
    }
    for (const [index, optimizer] of this.#optimizers) {
      if (ranks.every((rank) => optimizer.droppedBy.has(rank))) {
        optimizer.dispose();
        this.#optimizers.delete(index);
      }
    }
  }

  #forgetVariable(id: number): void {
    for (const optimizer of this.#optimizers.values()) {
      optimizer.remove(id);
    }
    this.#variables.get(id)?.variable?.dispose();
    this.#variables.delete(id);
  }

  /**
   * Copies the current weights and optimizer 0's slots in checkpoint format. A piece of a split variable includes its offset.
   * @param withScalars true to include the optimizer's counters. Exactly one server must include them.
   */
  async capture(withScalars: boolean): Promise<StoredTensor[]> {
    const weights = [...this.#variables.values()].flatMap(({ described, piece, variable }) =>
      piece === null || variable === null ? [] : [this.#stored(described.tensor, variable, piece)],
    );
    const slots = (this.#optimizers.get(0)?.held() ?? []).flatMap(({ property, tensor, slot }) => {
      if (slot === null) {
        return withScalars ? [this.#stored(`optimizer:${property}`, tensor, null)] : [];
      }
      const { name } = this.variable(slot.variable).described;
      return [this.#stored(`optimizer:${property}:${slot.variable}:${name}${slot.suffix}`, tensor, slot.piece)];
    });
    return await Promise.all([...weights, ...slots]);
  }

  async #stored(name: string, variable: tfjs.Variable, piece: Piece | null): Promise<StoredTensor> {
    const bytes = await copyOf(this.#tf, variable);
    if (piece === null) {
      return { name, dtype: 'float32', shape: variable.shape, bytes };
    }
    const { shape } = this.variable(piece.variable).described;
    const isWhole = piece.count === sizeOf(shape);
    return { name, dtype: 'float32', shape, bytes, ...(isWhole ? {} : { from: piece.from }) };
  }

  /** Returns the names of the checkpoint tensors that this server needs. */
  namesIn(names: readonly string[]): string[] {
    const held = [...this.#variables].filter(([, { piece }]) => piece !== null);
    const ids = new Set(held.map(([id]) => id));
    const weights = new Set(held.map(([, { described }]) => weightKey(described.tensor)));
    return names.filter((name) => {
      const [kind, , index] = name.split(':');
      return weights.has(weightKey(name)) || (kind === 'optimizer' && (index === undefined || ids.has(Number(index))));
    });
  }

  /**
   * Restores the weights and optimizer 0.
   * @param tensors whole tensors with the names that `namesIn` returned.
   * @throws TonyError CHECKPOINT_MISMATCH.
   */
  restore(tensors: readonly StoredTensor[], steps: number, where: string): void {
    const weights = new Map(tensors.map((tensor) => [weightKey(tensor.name), tensor]));
    const optimizer = this.optimizer(0);
    const foreign = tensors.find(({ name }) => name.startsWith('optimizer:') && !optimizer.keeps(String(name.split(':')[1])));
    if (foreign !== undefined) {
      throw misfit(where, `it was trained with another optimizer, which has the property ${foreign.name.split(':')[1]}`);
    }
    for (const served of this.#variables.values()) {
      const { piece, described } = served;
      const stored = weights.get(weightKey(described.tensor));
      if (piece !== null) {
        if (stored?.dtype !== 'float32' || stored.bytes.length !== sizeOf(described.shape) * 4) {
          throw misfit(where, `it does not contain ${described.tensor} as float32 [${described.shape}]`);
        }
        served.assign(partOf(stored, piece));
      }
    }
    for (const tensor of tensors.filter(({ name }) => name.startsWith('optimizer:'))) {
      const [, property = '', variable, ...name] = tensor.name.split(':');
      if (variable === undefined) {
        optimizer.setCounter(property, numbersIn(tensor.bytes)[0] as number);
      } else {
        const { described, piece } = this.variable(Number(variable));
        const slot = name.join(':');
        // If the variable has a different name in the checkpoint, the slot's suffix begins at the last slash.
        const suffix = slot.startsWith(described.name) ? slot.slice(described.name.length) : slot.slice(slot.lastIndexOf('/'));
        optimizer.setSlot(property, suffix, Number(variable), partOf(tensor, piece as Piece));
      }
    }
    optimizer.setIterations(steps);
  }

  forgetStates(): void {
    if (this.#retired) {
      for (const optimizer of this.#optimizers.values()) {
        optimizer.forgetState();
      }
    }
  }

  /** Frees the shard's memory on the backend. The weights and the optimizer states remain readable. */
  retire(): void {
    if (!this.#retired) {
      this.#retired = true;
      for (const optimizer of this.#optimizers.values()) {
        optimizer.retire();
      }
      for (const served of this.#variables.values()) {
        served.retire();
      }
    }
  }

  dispose(): void {
    this.#retired = true;
    for (const optimizer of this.#optimizers.values()) {
      optimizer.dispose();
    }
    for (const { variable } of this.#variables.values()) {
      variable?.dispose();
    }
    this.#optimizers.clear();
    this.#variables.clear();
  }
}

/** A Float32Array requires aligned memory, so the bytes are copied. */
function numbersIn(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}

function partOf(stored: StoredTensor, { from, count }: Piece): Float32Array {
  return numbersIn(stored.bytes.subarray(from * 4, (from + count) * 4));
}
