import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';
import { weightsOf } from '../model/compiled-model.ts';
import {
  beginOptimizer,
  captureMembers,
  captureOptimizer,
  checkOptimizer,
  optimizerTensors,
  RANK_0,
  requireReadable,
  restoreOptimizer,
  type StateSource,
} from '../model/optimizer-state.ts';
import { assignTensors, capture, misfit, type NamedTensor, type NamedVariable, typeOf } from '../model/stored-tensors.ts';
import { setIterations } from '../optimizer/optimizer-members.ts';
import type { KeptState } from './strategy-checkpoints.ts';

type OneOrNamed<T> = T | Readonly<Record<string, T>>;

export interface LoopParts {
  readonly models?: OneOrNamed<tfjs.LayersModel>;
  /** Variables that do not belong to a model, by name. */
  readonly variables?: Readonly<Record<string, tfjs.Variable>>;
  readonly optimizers?: OneOrNamed<tfjs.Optimizer>;
}

/**
 * The state of a custom training loop. Checkpoints use these tensor names:
 *
 *   model:<index>:<weight>           a model weight
 *   variable/<name>                  a variable that does not belong to a model
 *   optimizer:...                    an optimizer slot, named as in training-state.ts, with its variable's index in `variables`
 *   optimizer:iterations             the optimizer's step counter
 *
 *   members:...                      the optimizer's other members, as in optimizer-state.ts
 *
 * If the loop has several models or optimizers, the names begin with `model/<name>:`, `optimizer/<name>:` or `members/<name>:`.
 */
export class LoopState implements KeptState {
  readonly #tf: typeof tfjs;
  readonly models: ReadonlyMap<string, tfjs.LayersModel>;
  readonly #weights: readonly NamedVariable[];
  readonly #optimizers: ReadonlyMap<string, tfjs.Optimizer>;
  /** Always 0, because a loop's checkpoints store each optimizer's step counter as a tensor. */
  readonly iterations = 0;

  /** @throws TonyError USAGE if `parts` contains no variables or the same variable twice. */
  constructor(tf: typeof tfjs, parts: LoopParts) {
    this.#tf = tf;
    this.models = namedOf('model', parts.models, (value) => 'trainableWeights' in value);
    this.#optimizers = namedOf('optimizer', parts.optimizers, (value) => 'applyGradients' in value);
    this.#weights = [
      ...[...this.models].flatMap(([prefix, model]) =>
        weightsOf(model).map(({ name, variable }, index) => ({ name: `${prefix}:${index}:${name}`, variable })),
      ),
      ...Object.entries(parts.variables ?? {}).map(([name, variable]) => ({ name: `variable/${name}`, variable })),
    ];
    const variables = new Set(this.variables);
    if (variables.size === 0) {
      throw new TonyError('USAGE', 'the loop has nothing to train', {
        hint: 'Pass cluster.loop({ models }) or cluster.loop({ variables }).',
      });
    }
    if (variables.size < this.#weights.length) {
      const twice = this.#weights.find(({ variable }, index) => this.variables.indexOf(variable) < index);
      throw new TonyError('USAGE', `the loop contains the variable ${twice?.name} twice`, {
        hint: 'If models share a layer, pass a single model that contains all of the layers.',
      });
    }
  }

  get variables(): tfjs.Variable[] {
    return this.#weights.map(({ variable }) => variable);
  }

  get optimizers(): tfjs.Optimizer[] {
    return [...this.#optimizers.values()];
  }

  /** The models' non-trainable float32 weights: moving averages, the state of custom layers, and frozen weights. */
  get untrained(): tfjs.Variable[] {
    const models = [...this.models.values()];
    const trained = new Set(models.flatMap(({ trainableWeights }) => trainableWeights.map((weight) => weight.read())));
    return models
      .flatMap((model) => weightsOf(model).map(({ variable }) => variable))
      .filter((variable) => variable.dtype === 'float32' && !trained.has(variable));
  }

  /** Returns all variables and optimizer slots with their names in checkpoints. Their values must be equal on all ranks. */
  named(): NamedTensor[] {
    const variables = this.variables;
    const slots = [...this.#optimizers].flatMap(([prefix, optimizer]) => optimizerTensors(this.#tf, optimizer, variables, prefix));
    return [...this.#weights, ...slots];
  }

  async capture(): Promise<StoredTensor[]> {
    const counters = [...this.#optimizers].map(([prefix, { iterations }]): StoredTensor => {
      return { name: `${prefix}:iterations`, dtype: 'int32', shape: [], bytes: new Uint8Array(Int32Array.of(iterations).buffer) };
    });
    const slots = [...this.#optimizers].map(([prefix, each]) => captureOptimizer(this.#tf, each, this.variables, prefix));
    const [weights, ...optimizers] = await Promise.all([capture(this.#tf, this.#weights), ...slots]);
    return [...weights, ...optimizers.flat(), ...counters];
  }

  /** Copies the part of the optimizers' state that parameter servers do not hold. */
  async captureMembers(): Promise<StoredTensor[]> {
    const members = [...this.#optimizers].map(([prefix, each]) => captureMembers(this.#tf, each, this.variables, prefix));
    return (await Promise.all(members)).flat();
  }

  /** Restores what `captureMembers` has returned on rank 0. */
  async restoreMembers(tensors: readonly StoredTensor[]): Promise<void> {
    for (const [prefix, optimizer] of this.#optimizers) {
      await restoreOptimizer(this.#tf, optimizer, this.variables, tensors, RANK_0, prefix);
    }
  }

  /** Notes the hyperparameters with which the loop begins. Call it before `restore`. */
  begin(): void {
    this.optimizers.forEach(beginOptimizer);
  }

  requireReadable(): void {
    for (const optimizer of this.optimizers) {
      requireReadable(this.#tf, optimizer, this.variables);
    }
  }

  async restore(tensors: readonly StoredTensor[], _iterations: number, { where, isShared }: StateSource): Promise<void> {
    const tf = this.#tf;
    const stored = new Map(tensors.map((tensor) => [keyOf(tensor.name), tensor]));
    const unknown = tensors.filter(
      ({ name }) => !/^(optimizer|members)[:/]/.test(name) && !this.#weights.some((weight) => keyOf(weight.name) === keyOf(name)),
    );
    if (unknown[0] !== undefined) {
      throw misfit(where, `it contains ${unknown[0].name}, which is not part of this loop`);
    }
    const pairs = this.#weights.map(({ name, variable }) => {
      const tensor = stored.get(keyOf(name));
      if (tensor === undefined) {
        throw misfit(where, `it does not contain ${name}`);
      }
      if (typeOf(tensor) !== typeOf(variable)) {
        throw misfit(where, `${name} is ${typeOf(tensor)} there, but ${typeOf(variable)} in this loop`);
      }
      return { variable, tensor };
    });
    const slots = tensors.filter(({ name }) => !name.endsWith(':iterations'));
    for (const [prefix, optimizer] of this.#optimizers) {
      checkOptimizer(optimizer, slots, where, prefix);
    }
    assignTensors(tf, pairs);
    for (const [prefix, optimizer] of this.#optimizers) {
      await restoreOptimizer(tf, optimizer, this.variables, slots, { isShared }, prefix);
      const counter = stored.get(`${prefix}:iterations`);
      if (counter !== undefined) {
        setIterations(optimizer, Buffer.from(counter.bytes).readInt32LE());
      }
    }
  }
}

/**
 * Removes the weight's own name, so that weights are matched by index. Layer names may differ between this program and the program that
 * wrote the checkpoint.
 */
function keyOf(name: string): string {
  return name.replace(/^(model[^:]*:\d+):.*$/s, '$1');
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Maps each value to the prefix of its tensor names: `model` for one model, `model/<name>` for several. @throws TonyError USAGE. */
function namedOf<T extends object>(kind: string, given: OneOrNamed<T> | undefined, isOne: (value: T) => boolean): Map<string, T> {
  if (given === undefined) {
    return new Map();
  }
  if (isOne(given as T)) {
    return new Map([[kind, given as T]]);
  }
  return new Map(
    Object.entries(given as Readonly<Record<string, T>>).map(([name, each]) => {
      if (!NAME.test(name)) {
        throw new TonyError('USAGE', `${JSON.stringify(name)} is not a valid ${kind} name`, {
          hint: 'Use up to 64 letters, digits, dots, dashes and underscores; begin with a letter or digit.',
        });
      }
      if (typeof each !== 'object' || each === null || !isOne(each)) {
        throw new TonyError('USAGE', `${name} is not ${kind === 'optimizer' ? 'an' : 'a'} ${kind}`, {
          hint: `Pass one ${kind}, or several by name: { ${kind}s: { name: ... } }.`,
        });
      }
      return [`${kind}/${name}`, each];
    }),
  );
}
