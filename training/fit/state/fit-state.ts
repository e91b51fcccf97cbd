import type * as tfjs from '@tensorflow/tfjs';
import * as z from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { CompiledModel } from '../../model/compiled-model.ts';
import type { NamedVariable } from '../../model/stored-tensors.ts';
import { BestWeights, type RestoreBest } from './best-weights.ts';
import { decodeState, encodeState } from './state-json.ts';

export interface FitStateOptions {
  readonly state?: Record<string, Json>;
  readonly variables?: Readonly<Record<string, tfjs.Variable>>;
  readonly restoreBest?: RestoreBest;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** A number, including those that `z.number()` rejects, such as Infinity. */
const anyNumber = z.custom<number>((value) => typeof value === 'number');
/** The counters of `tf.callbacks.earlyStopping`. */
const stopping = z.object({ best: anyNumber, wait: anyNumber, stoppedEpoch: anyNumber }).partial();
type Stopping = z.infer<typeof stopping>;

const stored = z.object({
  own: z.record(z.string(), z.unknown()).nullable(),
  /** True if a callback has ended training in the step of the checkpoint. */
  stop: z.boolean(),
  stopping: z.array(stopping),
  best: z.object({ epoch: z.number(), monitor: z.string(), value: anyNumber }).nullable(),
});

/**
 * The state of the callbacks of `fit` in checkpoints: the program's own state and variables, the counters of early stopping, and the best
 * weights.
 */
export class FitState {
  readonly #own: Record<string, Json> | null;
  readonly #variables: readonly NamedVariable[];
  readonly #stopping: readonly Stopping[];
  readonly best: BestWeights | null;

  /**
   * @param callbacks the callbacks of `fit`.
   * @param names the names of the values that `fit` computes for each epoch.
   * @throws TonyError USAGE.
   */
  constructor(
    tf: typeof tfjs,
    model: CompiledModel,
    { state, variables = {}, restoreBest = false }: FitStateOptions,
    { callbacks, names }: { readonly callbacks: readonly object[]; readonly names: readonly string[] },
  ) {
    if (state !== undefined && (typeof state !== 'object' || state === null || Array.isArray(state))) {
      throw new TonyError('USAGE', 'state is not an object', { hint: 'Pass an object that the callbacks change: { state: { best: 0 } }.' });
    }
    encodeState(state ?? null, 'state');
    this.#own = state ?? null;
    this.#variables = namedVariables(tf, model, variables);
    this.#stopping = callbacks.filter((callback) => callback instanceof tf.EarlyStopping) as unknown as readonly Stopping[];
    this.best = restoreBest === false ? null : new BestWeights(tf, model, restoreBest, names);
  }

  /** The variables to store, with their names in checkpoints. */
  get variables(): readonly NamedVariable[] {
    return [...this.#variables, ...(this.best?.variables ?? [])];
  }

  /** @throws TonyError USAGE if the program's state is not JSON. */
  toJson(stop: boolean): Json {
    const counters = this.#stopping.map(({ best, wait, stoppedEpoch }) => ({ best, wait, stoppedEpoch }));
    const all = { own: this.#own, stop, stopping: counters, best: this.best?.best ?? null };
    return encodeState(all, 'state');
  }

  /**
   * Restores the output of `toJson`. The program's state stays the same object.
   * @returns true if a callback had ended training.
   */
  restore(json: Json | undefined): boolean {
    if (json === undefined) {
      // An older version has written the checkpoint.
      return false;
    }
    const found = stored.safeParse(decodeState(json));
    if (!found.success) {
      throw new TonyError('CHECKPOINT_MISMATCH', 'the checkpoint contains the state of callbacks in an unknown format');
    }
    const { own, stop, stopping: counters, best } = found.data;
    if (this.#own !== null && own !== null) {
      for (const key of Object.keys(this.#own)) {
        delete this.#own[key];
      }
      Object.assign(this.#own, own);
    }
    for (const [index, counter] of counters.entries()) {
      Object.assign(this.#stopping[index] ?? {}, counter);
    }
    this.best?.resume(best);
    return stop;
  }

  dispose(): void {
    this.best?.dispose();
  }
}

function namedVariables(
  tf: typeof tfjs,
  model: CompiledModel,
  variables: Readonly<Record<string, tfjs.Variable>>,
): readonly NamedVariable[] {
  const weights = new Set(model.weights.map(({ variable }) => variable));
  return Object.entries(variables).map(([name, variable]) => {
    if (!NAME.test(name) || !(variable instanceof tf.Variable)) {
      throw new TonyError('USAGE', `variables.${name} is not a variable with a valid name`, {
        hint: 'Pass variables by name: { variables: { average: tf.variable(...) } }. Use up to 64 letters, digits, dots, dashes, underscores.',
      });
    }
    if (weights.has(variable)) {
      throw new TonyError('USAGE', `variables.${name} is a weight of the model, which checkpoints already contain`);
    }
    return { name: `variable/${name}`, variable };
  });
}
