import type * as tfjs from '@tensorflow/tfjs';
import { type CheckpointFollowOptions, followCheckpoints } from '../../contract/checkpoint/checkpoint-follower.ts';
import type { BestCheckpoint } from '../../contract/checkpoint/checkpoint-marks.ts';
import {
  type CheckpointStore,
  type LoadedCheckpoint,
  loadedCheckpoint,
  type StoredCheckpoint,
} from '../../contract/checkpoint/checkpoint-store.ts';
import {
  checkOptionValues,
  isFlag,
  isFunction,
  isNotNegative,
  isObject,
  isOneOf,
  isPositiveNumber,
  isTextNotEmpty,
  isWhole,
  type OptionRules,
} from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { BestSoFar, modeOf } from '../checkpoint/best-so-far.ts';
import { StopOrders } from '../checkpoint/stop-order.ts';
import { BATCH_SIZE, type ValidationData } from '../data/fit-data.ts';
import { InputLists } from '../data/reading/input-lists.ts';
import { Validation } from '../fit/validation.ts';
import { type CompiledModel, inspectModel } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';
import { lonePeers } from '../ring/peers.ts';

export interface EvaluateCheckpointsOptions {
  /** Name of the value that determines the best checkpoint: `loss`, or a metric that was passed to `compile`. Default: `loss`. */
  readonly metric?: string;
  /**
   * Whether the lowest or the highest value is the best. Default: `max` for metrics whose names contain acc, precision, recall, auc or f1,
   * and `min` for all others.
   */
  readonly mode?: 'min' | 'max';
  /** Name of the phase whose checkpoints are evaluated. Default: all phases. */
  readonly phase?: string;
  /**
   * Training ends after this many consecutive evaluations without an improvement: it writes its final checkpoint, and the job succeeds. By
   * default, the evaluator never ends training.
   */
  readonly patience?: number;
  /** A value must improve by more than this to reset the count for `patience`. Default: 0. */
  readonly minDelta?: number;
  /** Number of examples per batch. Must be absent for a dataset that is already batched. Default: 32. */
  readonly batchSize?: number;
  /** For a dataset, the number of batches to evaluate. Default: all batches. */
  readonly batches?: number;
  /**
   * Whether to load the best checkpoint's weights into the model when the evaluation ends. Otherwise, the model keeps the last checkpoint's
   * weights. Default: false.
   */
  readonly restoreBest?: boolean;
  /** Interval in ms at which the evaluator looks for a new checkpoint. Default: 2000. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  readonly onEvaluation?: (evaluation: Evaluation) => void | Promise<void>;
}

const OPTIONS: OptionRules<EvaluateCheckpointsOptions> = {
  metric: isTextNotEmpty,
  mode: isOneOf('min', 'max'),
  phase: isTextNotEmpty,
  patience: isWhole(1),
  minDelta: isNotNegative,
  batchSize: isWhole(1),
  batches: isWhole(1),
  restoreBest: isFlag,
  everyMs: isPositiveNumber,
  signal: isObject,
  onEvaluation: isFunction,
};

/** One checkpoint's values. During `onEvaluation`, the model has this checkpoint's weights. */
export interface Evaluation extends LoadedCheckpoint {
  readonly values: Readonly<Record<string, number>>;
  readonly isBest: boolean;
}

export interface EvaluationReport {
  readonly evaluations: readonly Evaluation[];
  /**
   * Best checkpoint, or null if no checkpoint had a usable value. The job never removes the best checkpoint, and best.json in the
   * checkpoint folder names it.
   */
  readonly best: (BestCheckpoint & { readonly uri: string }) | null;
  /** Reason why the evaluator has ended training, or null if it has not. */
  readonly stopped: string | null;
}

export interface EvaluationWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  readonly store: CheckpointStore;
  readonly jobId: string;
  /**
   * The evaluator's name, for example `evaluator-0`. The evaluator uses this name to protect a checkpoint from removal while it reads the
   * checkpoint.
   */
  readonly holder: string;
  /** Reports an evaluation's values and the best value so far to the job and to TensorBoard. */
  readonly onValues: (step: number, values: Readonly<Record<string, number>>, best: Readonly<Record<string, number>>) => void;
  readonly onNotice: (message: string) => void;
}

/**
 * Evaluates new checkpoints until training has ended, records the best one, and ends training after `patience` evaluations without an
 * improvement.
 */
export class Evaluator {
  readonly #world: EvaluationWorld;
  readonly #model: CompiledModel;
  readonly #options: EvaluateCheckpointsOptions;
  readonly #validation: Validation;
  readonly #metric: string;
  readonly #mode: 'min' | 'max';
  readonly #orders: StopOrders;
  readonly #evaluations: Evaluation[] = [];
  #best: BestCheckpoint | null = null;
  #stopped: string | null = null;
  readonly #stoppedPhases = new Set<string>();

  /** @throws TonyError MODEL_INVALID, DATA_INVALID or USAGE if an argument is invalid. */
  constructor(world: EvaluationWorld, model: tfjs.LayersModel, data: ValidationData, options: EvaluateCheckpointsOptions) {
    checkOptionValues('evaluateCheckpoints', options, OPTIONS);
    const { tf, storage, store, onNotice } = world;
    this.#world = world;
    this.#model = inspectModel(tf, model);
    this.#options = options;
    const { batchSize = BATCH_SIZE, batches, metric = 'loss' } = options;
    const lists = InputLists.ofJob().view({});
    this.#validation = new Validation({ tf, peers: lonePeers(0, 1), storage, lists, onNotice }, this.#model, data, { batchSize, batches });
    if (!this.#model.metricNames.includes(metric)) {
      throw new TonyError('USAGE', `the model has no metric ${metric}`, {
        hint: `The model's metrics are ${this.#model.metricNames.join(', ')}.`,
      });
    }
    this.#metric = metric;
    this.#mode = options.mode ?? modeOf(metric);
    this.#orders = new StopOrders(storage, store.dir);
  }

  async run(): Promise<EvaluationReport> {
    const { store, jobId, onNotice, holder } = this.#world;
    const { everyMs, signal, patience = null, minDelta = 0, phase } = this.#options;
    const known = await store.marks.best();
    // best.json may be from an earlier process of this evaluator, or from the training run that this job resumes.
    this.#best = known !== null && known.metric === this.#metric && known.mode === this.#mode ? known : null;
    const byPhase = new Map<string, BestSoFar>();
    const follow: CheckpointFollowOptions = {
      ...(everyMs === undefined ? {} : { everyMs }),
      ...(signal === undefined ? {} : { signal }),
      jobId: jobId === '' ? null : jobId,
      ...(phase === undefined ? {} : { phase }),
      onTrouble: onNotice,
    };
    try {
      for await (const checkpoint of followCheckpoints(store, follow)) {
        // Patience is counted for each phase separately, but there is only one best checkpoint for all phases.
        const { name } = checkpoint.position.phase;
        const bestSoFar = byPhase.get(name) ?? new BestSoFar({ mode: this.#mode, patience, minDelta }, this.#best?.value ?? null);
        byPhase.set(name, bestSoFar);
        // If the checkpoint no longer exists, `hold` returns false. A newer checkpoint then exists, and the next round evaluates it.
        if (await store.marks.hold(holder, checkpoint.position.step)) {
          await this.#evaluate(checkpoint, bestSoFar);
        }
      }
    } finally {
      await store.marks.release(holder);
    }
    return await this.#conclude();
  }

  async #evaluate(checkpoint: StoredCheckpoint, bestSoFar: BestSoFar): Promise<void> {
    const { tf, store, onValues } = this.#world;
    const loaded = loadedCheckpoint(checkpoint);
    const { step, phase, final } = loaded;
    restoreEvaluated(tf, this.#model.weights, checkpoint);
    const means = await this.#validation.run(step);
    const values = Object.fromEntries(this.#model.metricNames.map((name, index) => [name, means[index] as number]));
    const value = values[this.#metric] as number;
    const { isBest, isEnough } = bestSoFar.add(value);
    if (isBest) {
      this.#best = { step, metric: this.#metric, value, mode: this.#mode };
      await store.marks.setBest(this.#best);
    }
    const best = this.#best === null ? {} : { [`best_${this.#metric}`]: this.#best.value, best_step: this.#best.step };
    onValues(step, values, best);
    const evaluation = { ...loaded, values, isBest };
    this.#evaluations.push(evaluation);
    await this.#options.onEvaluation?.(evaluation);
    if (isEnough && !final && !this.#stoppedPhases.has(phase)) {
      this.#stoppedPhases.add(phase);
      await this.#stopTraining(step, phase);
    }
  }

  async #stopTraining(step: number, phase: string): Promise<void> {
    const { jobId } = this.#world;
    const { patience, minDelta = 0 } = this.#options;
    const by = minDelta === 0 ? '' : ` by more than ${minDelta}`;
    const best = this.#best === null ? '' : `; best ${Number(this.#best.value.toPrecision(5))} at step ${this.#best.step}`;
    const times = patience === 1 ? 'evaluation' : 'evaluations';
    this.#stopped = `${this.#metric} on held-out data did not improve${by} for ${patience} ${times}${best}`;
    if ((await this.#orders.read(jobId, phase)) === null) {
      await this.#orders.give({ jobId, phase, reason: this.#stopped, step, at: null });
    }
  }

  async #conclude(): Promise<EvaluationReport> {
    const { tf, store, onNotice } = this.#world;
    const best = this.#best;
    if (best === null) {
      return { evaluations: this.#evaluations, best: null, stopped: this.#stopped };
    }
    const uri = joinUri(store.dir, `step-${best.step}`);
    onNotice(`the best checkpoint is ${uri}, with ${best.metric} ${best.value}`);
    if (this.#options.restoreBest === true) {
      restoreWeights(tf, this.#model.weights, (await store.read(best.step)).tensors, uri);
    }
    return { evaluations: this.#evaluations, best: { ...best, uri }, stopped: this.#stopped };
  }
}

/**
 * Loads a checkpoint's weights into the model. Errors name the phase, because a program may train several models.
 * @throws TonyError CHECKPOINT_MISMATCH if the weights do not match the model.
 */
function restoreEvaluated(tf: typeof tfjs, weights: CompiledModel['weights'], { uri, tensors, position }: StoredCheckpoint): void {
  try {
    restoreWeights(tf, weights, tensors, uri);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'CHECKPOINT_MISMATCH') {
      const { name } = position.phase;
      throw new TonyError('CHECKPOINT_MISMATCH', `phase ${name}: ${error.message}`, {
        hint: 'If a program trains several models, select the phase to evaluate: { phase: NAME }.',
        cause: error,
      });
    }
    throw error;
  }
}
