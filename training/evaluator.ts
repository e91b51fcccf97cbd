import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { BestSoFar } from './best-so-far.ts';
import type { BestCheckpoint } from './checkpoint-best.ts';
import { type FollowOptions, followCheckpoints } from './checkpoint-follower.ts';
import type { CheckpointStore, StoredCheckpoint } from './checkpoint-store.ts';
import { type CompiledModel, inspectModel } from './compiled-model.ts';
import { BATCH_SIZE, type ValidationData } from './fit-data.ts';
import type { Peers } from './peers.ts';
import { StopOrders } from './stop-order.ts';
import { restoreWeights } from './training-state.ts';
import { Validation } from './validation.ts';

export interface EvaluateOptions {
  /** `loss`, or a metric that the model is compiled with: what the best checkpoint is chosen by. `loss` unless told. */
  readonly metric?: string;
  /** Whether less or more of it is better; by its name unless told: more for what is called after accuracy, precision or recall. */
  readonly mode?: 'min' | 'max';
  /**
   * After so many checkpoints in a row that are no improvement training is ended: by a final checkpoint of its own, so the job succeeds.
   * Never unless told.
   */
  readonly patience?: number;
  /** What is better by no more than this is no improvement; 0 unless told. */
  readonly minDelta?: number;
  /** Examples at a time; 32 unless told. Not for datasets that come in batches. */
  readonly batchSize?: number;
  /** Of a dataset, so many batches; all unless told. */
  readonly batches?: number;
  /** In the end the model has the weights of the best checkpoint, rather than of the last one; false unless told. */
  readonly restoreBest?: boolean;
  /** Between two looks for a newer checkpoint; 2 s unless told. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  readonly onEvaluation?: (evaluation: Evaluation) => void | Promise<void>;
}

/** What a checkpoint came to. The model has its weights when `onEvaluation` is called. */
export interface Evaluation {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  /** Training is over: no other one follows. */
  readonly final: boolean;
  readonly values: Readonly<Record<string, number>>;
  readonly isBest: boolean;
}

export interface EvaluationReport {
  readonly evaluations: readonly Evaluation[];
  /** Also named in the checkpoint folder, in best.json, and never removed as an old one. null when none was good for anything. */
  readonly best: (BestCheckpoint & { readonly uri: string }) | null;
  /** Why training was told to end; null when it was not. */
  readonly stopped: string | null;
}

/** What an evaluator needs of the world around it. */
export interface EvaluationWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  readonly store: CheckpointStore;
  readonly applicationId: string;
  /** `evaluator:0`: whose hand is on a checkpoint. */
  readonly holder: string;
  /** Values of now, for the job and for TensorBoard. */
  readonly onValues: (step: number, values: Readonly<Record<string, number>>, best: Readonly<Record<string, number>>) => void;
  readonly onNotice: (message: string) => void;
}

const MORE_IS_BETTER = /acc|precision|recall|auc|f1/i;

const ALONE: Peers = { rank: 0, worldSize: 1, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };

/** Evaluates each newest checkpoint of a training until its final one, names the best, and may end training. */
export class Evaluator {
  readonly #world: EvaluationWorld;
  readonly #model: CompiledModel;
  readonly #options: EvaluateOptions;
  readonly #validation: Validation;
  readonly #metric: string;
  readonly #mode: 'min' | 'max';
  readonly #orders: StopOrders;
  readonly #evaluations: Evaluation[] = [];
  #best: BestCheckpoint | null = null;
  #stopped: string | null = null;

  /** @throws TonyError MODEL_INVALID, DATA_INVALID, USAGE. */
  constructor(world: EvaluationWorld, model: tfjs.LayersModel, data: ValidationData, options: EvaluateOptions) {
    const { tf, storage, store, onNotice } = world;
    this.#world = world;
    this.#model = inspectModel(tf, model);
    this.#options = options;
    const { batchSize = BATCH_SIZE, batches, metric = 'loss', patience } = options;
    this.#validation = new Validation({ tf, peers: ALONE, storage, onNotice }, this.#model, data, { batchSize, batches });
    if (!this.#model.metricNames.includes(metric)) {
      throw new TonyError('USAGE', `the model has no metric ${metric}`, { hint: `It has ${this.#model.metricNames.join(', ')}.` });
    }
    if (patience !== undefined && (!Number.isInteger(patience) || patience < 1)) {
      throw new TonyError('USAGE', `patience is ${patience}; it must be a whole number of at least 1`);
    }
    this.#metric = metric;
    this.#mode = options.mode ?? (MORE_IS_BETTER.test(metric) ? 'max' : 'min');
    this.#orders = new StopOrders(storage, store.dir);
  }

  async run(): Promise<EvaluationReport> {
    const { store, applicationId, onNotice, holder } = this.#world;
    const { everyMs, signal, patience = null, minDelta = 0 } = this.#options;
    const known = await store.best();
    // Of an earlier process, or of a training that this one goes on from.
    this.#best = known !== null && known.metric === this.#metric && known.mode === this.#mode ? known : null;
    const judge = new BestSoFar({ mode: this.#mode, patience, minDelta }, this.#best?.value ?? null);
    const follow: FollowOptions = {
      ...(everyMs === undefined ? {} : { everyMs }),
      ...(signal === undefined ? {} : { signal }),
      applicationId: applicationId === '' ? null : applicationId,
      onTrouble: onNotice,
    };
    try {
      for await (const checkpoint of followCheckpoints(store, follow)) {
        // One that has gone meanwhile has a successor.
        if (await store.hold(holder, checkpoint.position.step)) {
          await this.#evaluate(checkpoint, judge);
        }
      }
    } finally {
      await store.release(holder);
    }
    return await this.#conclude();
  }

  async #evaluate(checkpoint: StoredCheckpoint, judge: BestSoFar): Promise<void> {
    const { tf, store, onValues } = this.#world;
    const { uri } = checkpoint;
    const { step, epoch, final } = checkpoint.position;
    restoreWeights(tf, this.#model.weights, checkpoint.tensors, uri);
    const means = await this.#validation.run();
    const values = Object.fromEntries(this.#model.metricNames.map((name, index) => [name, means[index] as number]));
    const value = values[this.#metric] as number;
    const { isBest, isEnough } = judge.judge(value);
    if (isBest) {
      this.#best = { step, metric: this.#metric, value, mode: this.#mode };
      await store.markBest(this.#best);
    }
    const best = this.#best === null ? {} : { [`best ${this.#metric}`]: this.#best.value, 'best step': this.#best.step };
    onValues(step, values, best);
    const evaluation = { uri, step, epoch, final, values, isBest };
    this.#evaluations.push(evaluation);
    await this.#options.onEvaluation?.(evaluation);
    if (isEnough && !final && this.#stopped === null) {
      await this.#stopTraining(step);
    }
  }

  async #stopTraining(step: number): Promise<void> {
    const { applicationId } = this.#world;
    const { patience, minDelta = 0 } = this.#options;
    const by = minDelta === 0 ? '' : ` by more than ${minDelta}`;
    const best = this.#best === null ? '' : `; best ${Number(this.#best.value.toPrecision(5))} at step ${this.#best.step}`;
    const times = patience === 1 ? 'evaluation' : 'evaluations';
    this.#stopped = `${this.#metric} on held-out data did not improve${by} for ${patience} ${times}${best}`;
    if ((await this.#orders.read(applicationId)) === null) {
      await this.#orders.give({ applicationId, reason: this.#stopped, step, at: null });
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
