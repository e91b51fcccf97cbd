import { randomUUID } from 'node:crypto';
import type * as tfjs from '@tensorflow/tfjs';
import { followCheckpoints } from '../../contract/checkpoint/checkpoint-follower.ts';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { CheckpointThread } from '../../contract/checkpoint/checkpoint-thread.ts';
import { type Column, parseIdx } from '../../contract/encoding/idx.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { NO_SUMMARIES, type Summaries, SummaryWriter } from '../../contract/summary/summary.ts';
import { checkOptionValues, isObject, isPositiveNumber, isTextNotEmpty } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import { describeValue } from '../../platform/text/describe-value.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { type BackendName, refuseUnfitModel } from '../backend/backend.ts';
import type { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { type PhaseKind, Phases } from '../checkpoint/phases.ts';
import { StopOrders } from '../checkpoint/stop-order.ts';
import type { FitData, ValidationData } from '../data/fit-data.ts';
import { patternUri } from '../data/reading/glob.ts';
import { InputLists, listFolder } from '../data/reading/input-lists.ts';
import type { Dataset } from '../data/sources/dataset.ts';
import { Models } from '../export/models.ts';
import { DIVERGED_HINT } from '../fit/divergence.ts';
import { type EvaluateOptions, evaluate as evaluateOnAllRanks } from '../fit/evaluate.ts';
import { fit as fitOnAllRanks } from '../fit/fit.ts';
import type { FitHistory } from '../fit/fit-history.ts';
import type { FitOptions } from '../fit/fit-options.ts';
import { TrainingLoop } from '../fit/loop.ts';
import type { LoopOptions } from '../fit/loop-options.ts';
import { UnfinishedTraining } from '../fit/unfinished-training.ts';
import {
  type ModelPredictOptions,
  type PredictFunction,
  type PredictOptions,
  type PredictReport,
  predict as predictInTask,
} from '../inference/predict.ts';
import type { InferenceModel, Prediction, Values } from '../inference/predict-model.ts';
import { broadcastVariables } from '../model/broadcast-tensors.ts';
import { watchCompile } from '../model/compile-arguments.ts';
import { allTrainable, allVariables, type Trainable, trainedVariables } from '../model/trainables.ts';
import { type ParameterServerWorker, unsupportedWithServers } from '../parameter-server/worker/parameter-server-worker.ts';
import { checkReport } from '../process/check-report.ts';
import { noticesTo, type OnNotice } from '../process/notices.ts';
import { outputPlace } from '../process/output-place.ts';
import { uriOf } from '../process/uri-of.ts';
import { peersOfRing } from '../ring/peers.ts';
import type { Ring } from '../ring/ring.ts';
import type { Wire } from '../ring/ring-exchange.ts';
import { allReduceStrategy } from '../strategy/all-reduce/all-reduce-strategy.ts';
import { CustomSteps } from '../strategy/all-reduce/custom-steps.ts';
import { RingLoop } from '../strategy/all-reduce/ring-loop.ts';
import { type CustomStepOptions, checkCustomStepOptions } from '../strategy/custom-step-options.ts';
import { type SweepOptions, type SweepReport, sweep as sweepInTask, type Trial } from '../sweep/sweep.ts';
import type { Configuration } from '../sweep/sweep-space.ts';
import { type Checkpoint, checkpointOf } from './checkpoint.ts';
import { ClusterEnd } from './cluster-end.ts';
import { type EvaluateCheckpointsOptions, type EvaluationReport, type EvaluationWorld, Evaluator } from './evaluator.ts';

/** The parts from which `join` composes a `Cluster`. */
interface ClusterParts {
  readonly tf: typeof tfjs;
  readonly backend: BackendName;
  /** Connections between the ranks. With parameter servers, each worker is the only member of its ring. */
  readonly ring: Ring;
  /** Number format in which the ranks exchange gradients. */
  readonly wire: Wire;
  /** Connections to the parameter servers, or null if the job has none. */
  readonly servers: ParameterServerWorker | null;
  readonly ranked: boolean;
  readonly role: string;
  readonly index: number;
  readonly jobId: string;
  readonly jobName: string;
  readonly generation: number;
  readonly data: Readonly<Record<string, string>>;
  readonly storage: Storage;
  readonly checkpoint: {
    readonly dir: string;
    readonly everySteps: number | null;
    readonly everyMs: number | null;
    readonly keep: number;
  } | null;
  readonly summaryDir: string | null;
  readonly outputDir: string | null;
  readonly instances: number;
  /** Orders from the executor to write a checkpoint immediately. */
  readonly checkpointOrder: CheckpointOrder;
  /** The container's memory in MiB, or null if `fit` cannot estimate whether the memory suffices. */
  readonly memoryMb: number | null;
  readonly report: (report: Report) => void;
}

/** Numbers for `allReduce` and `broadcast`, which replace them with the results. */
type CollectiveNumbers = Float32Array | number[];

function isNumbers(values: unknown): values is CollectiveNumbers {
  return (
    values instanceof Float32Array || (Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === 'number'))
  );
}

/**
 * Calls `exchange` with the numbers as a vector, and replaces the numbers with the results.
 * @throws TonyError USAGE if `numbers` is neither a Float32Array nor an array of numbers.
 */
async function inPlace(numbers: CollectiveNumbers, exchange: (vector: Float32Array) => Promise<void>): Promise<void> {
  if (numbers instanceof Float32Array) {
    await exchange(numbers);
    return;
  }
  if (!isNumbers(numbers)) {
    throw new TonyError('USAGE', `expected a Float32Array or an array of numbers, found ${describeValue(numbers)}`, {
      hint: 'Only broadcast() accepts variables.',
    });
  }
  const vector = Float32Array.from(numbers);
  await exchange(vector);
  for (const [index, value] of vector.entries()) {
    numbers[index] = value;
  }
}

/** Represents this process as a member of its job. Outside a job, the process is the only rank. */
export class Cluster {
  /** TensorFlow.js with the fastest available backend. If the program imports TensorFlow.js itself, it gets the same instance. */
  readonly tf: typeof tfjs;
  readonly backend: BackendName;
  /**
   * This process's number among the processes that train together, from 0 to `worldSize` - 1. Null in a role without ranks, such as an
   * evaluator. Outside a job, the process has rank 0.
   */
  readonly rank: number | null;
  /** Number of processes that train together. Null in a role without ranks. */
  readonly worldSize: number | null;
  /** True for the process with rank 0, and false for all other ranks and in roles without ranks. */
  readonly isChief: boolean;
  /** How many times the job has formed its gang. Greater than 1 after a restart. */
  readonly generation: number;
  readonly role: string;
  readonly index: number;
  readonly jobId: string;
  readonly jobName: string;
  /**
   * This task's share of the work: its index among the tasks that divide the work, and the number of these tasks. These tasks are all of
   * the job's ranks or, in a role without ranks, all of the role's tasks.
   */
  readonly share: { readonly index: number; readonly count: number };
  /** URI of the job's output folder, or null for a standalone program without `outputDir`. */
  readonly outputUri: string | null;
  /** URI of the summary folder, or null if the program does not write summaries. The folder contains one sub-folder for each run. */
  readonly summaryUri: string | null;
  /** URIs of the job's input folders, by name. */
  readonly data: Readonly<Record<string, string>>;
  readonly storage: Storage;
  /** Loads and exports models, and copies weights from other models. */
  readonly models: Models;
  /**
   * Writes summaries for TensorBoard. Rank 0 writes the training summaries. A role without ranks writes a separate run named after the
   * role.
   */
  readonly summaries: Summaries;
  readonly #parts: ClusterParts;
  readonly #store: CheckpointStore | null;
  /** The lists of input files that a standalone program keeps next to its checkpoints, or null for the default lists. */
  readonly #lists: InputLists | null;
  readonly #writer: SummaryWriter | null;
  readonly #steps: CustomSteps;
  readonly #phases: Phases;
  readonly #unfinished = new UnfinishedTraining();
  readonly #notice: OnNotice;
  readonly #ending: ClusterEnd;
  #hasDiverged = false;
  #isDisconnected = false;

  constructor(parts: ClusterParts) {
    const { rank, worldSize } = parts.servers ?? parts.ring;
    this.#parts = parts;
    this.#notice = noticesTo(parts.report);
    this.#phases = new Phases(parts.jobId);
    this.#steps = new CustomSteps(parts.tf, parts.ring, parts.wire);
    this.tf = parts.tf;
    watchCompile(parts.tf);
    this.backend = parts.backend;
    this.rank = parts.ranked ? rank : null;
    this.worldSize = parts.ranked ? worldSize : null;
    this.isChief = this.rank === 0;
    this.generation = parts.generation;
    this.role = parts.role;
    this.index = parts.index;
    this.jobId = parts.jobId;
    this.jobName = parts.jobName;
    this.share = parts.ranked ? { index: rank, count: worldSize } : { index: parts.index, count: parts.instances };
    this.outputUri = parts.outputDir;
    this.summaryUri = parts.summaryDir;
    this.data = parts.data;
    this.storage = parts.storage;
    this.#store =
      parts.checkpoint === null ? null : new CheckpointStore(parts.storage, parts.checkpoint.dir, () => CheckpointThread.ofProcess());
    this.#lists =
      parts.jobId !== '' || this.#store === null
        ? null
        : InputLists.create({ storage: parts.storage, folder: listFolder(this.#store.dir), job: randomUUID() });
    this.models = new Models({
      tf: this.tf,
      storage: this.storage,
      store: this.#store,
      uriOf,
      outputUriOf: (place) => outputPlace(this.outputUri, place),
      onNotice: this.#notice,
    });
    this.#writer = this.#openSummaries();
    this.summaries = this.#writer ?? NO_SUMMARIES;
    this.#ending = new ClusterEnd({
      jobId: parts.jobId,
      store: this.isChief ? this.#store : null,
      writer: this.#writer,
      phases: this.#phases,
      unfinished: this.#unfinished,
      onNotice: this.#notice,
      onExit: () => {
        this.#disconnect();
        this.storage.close();
      },
    });
  }

  #openSummaries(): SummaryWriter | null {
    const { summaryDir, ranked, role, storage, jobId } = this.#parts;
    if (summaryDir === null || this.share.index > 0) {
      return null;
    }
    const dir = joinUri(summaryDir, ranked ? 'train' : role);
    return new SummaryWriter({ storage, dir, trial: jobId, onTrouble: this.#notice });
  }

  /**
   * Trains a compiled model on all ranks in parallel. FitOptions describes the options.
   *
   * With a checkpoint folder, training resumes from the newest valid checkpoint and writes new checkpoints. The last checkpoint is marked
   * as final. Each call is a separate phase. A restarted program restores the weights, optimizer and history of completed phases, and
   * resumes the interrupted phase.
   * @param data `{ x, y }` with tensors or arrays, or a dataset. Every rank must pass the same data, and trains on its own shard of the
   * data.
   * @throws TonyError MODEL_INVALID, DATA_INVALID, BACKEND_UNSUPPORTED, CHECKPOINT_MISMATCH, CHECKPOINT_FAILED, PEER_LOST, RING_MISMATCH.
   */
  async fit(model: tfjs.LayersModel, data: FitData, options: FitOptions = {}): Promise<FitHistory> {
    const { ring, wire, servers, backend } = this.#parts;
    refuseUnfitModel(backend, model);
    this.#refuseUnranked('Use model.fit there, or set kind: gang for the role.');
    const environment = this.#beginPhase('fit', options);
    const strategy = servers ?? allReduceStrategy(ring, wire);
    return await this.#unfinished.during((onProgress) =>
      fitOnAllRanks({ ...environment, strategy, summaries: this.#writer, onProgress }, model, data, options),
    );
  }

  /**
   * Computes the loss and the metrics of a compiled model on the data, like `model.evaluate`, in one pass. Each rank evaluates a share of
   * the data, and all ranks get the same values: the means over all examples. Every rank must call it with the same data. With parameter
   * servers, and in a role without ranks, each task evaluates all of the data.
   * @param data tensors, arrays with a shape, a dataset, or `[x, y]`.
   * @returns the values by name, for example `{ loss: 0.25, acc: 0.9 }`.
   * @throws TonyError MODEL_INVALID, DATA_INVALID, USAGE, PEER_LOST, RING_MISMATCH.
   */
  async evaluate(model: tfjs.LayersModel, data: ValidationData, options: EvaluateOptions = {}): Promise<Record<string, number>> {
    const lists = (this.#lists ?? InputLists.ofJob()).view({});
    const peers = peersOfRing(this.#parts.ring);
    return await evaluateOnAllRanks({ tf: this.tf, peers, storage: this.storage, lists, onNotice: this.#notice }, model, data, options);
  }

  /**
   * Applies a model or a function to each element of a dataset, with any number of workers. For each split of the dataset's files
   * (`dataset.splits()`), writes one result file, named after the split number (`part-00017.jsonl`), with the results in record order. A
   * file appears only when it is complete, and is written only once, even if workers fail, restart or compute the same split. After all
   * parts exist, the file `_SUCCESS` appears with the number of records in each part. The workers do not communicate. If job.yaml sets
   * `kind: independent`, the job can therefore replace a failed worker without interrupting the other workers.
   * @param dataset a dataset that reads files and does not use `batch`, `shuffle`, `repeat`, `take`, `skip` or `shard`. `predict` disposes
   *   the tensors in the dataset's elements.
   * @returns a report, after all parts exist.
   * @throws TonyError OUTPUT_MISMATCH if the folder contains results from other files or another model; DATA_INVALID, NOT_FOUND, and errors
   *   that the function throws.
   */
  predict<T, R>(dataset: Dataset<T>, compute: PredictFunction<T, R>, options: PredictOptions): Promise<PredictReport>;
  predict<T, R, P extends Prediction = Values>(
    dataset: Dataset<T>,
    model: InferenceModel,
    options: ModelPredictOptions<T, R, P>,
  ): Promise<PredictReport>;
  async predict<T, R, P extends Prediction>(
    dataset: Dataset<T>,
    compute: PredictFunction<T, R> | InferenceModel,
    options: ModelPredictOptions<T, R, P>,
  ): Promise<PredictReport> {
    return await predictInTask(this, dataset, compute, options);
  }

  /**
   * Evaluates configurations independently on all tasks of a role. Each task requests a new trial when its previous trial has ended. If a
   * task fails, another task runs its unfinished trial. The sweep stores each result immediately, so another job with the same output runs
   * only the missing trials. `sweep` returns in all tasks when all trials have ended. The task with index 0 then writes `results.csv` and
   * `results.json`, prints the table, and names the best trial in a notice. Each trial is a TensorBoard run with a row in the HParams tab.
   * The role's tasks must not have ranks (`kind: independent` in job.yaml), because each task trains its own models, with `model.fit`.
   * @param configurations the same list in each task: from `grid` or `randomSearch`, or an array.
   * @param trial trains with one configuration, and returns its metrics.
   * @throws TonyError OUTPUT_MISMATCH if the folder contains trials for other configurations; TRIAL_FAILED; USAGE if an argument is invalid
   *   or the tasks have ranks.
   */
  async sweep<C extends Configuration>(
    configurations: readonly C[],
    trial: (configuration: C, trial: Trial) => Promise<Readonly<Record<string, number>>>,
    options: SweepOptions,
  ): Promise<SweepReport<C>> {
    return await sweepInTask(this, configurations, trial, options);
  }

  /**
   * Takes one step of a custom training loop. Every rank must make the same calls.
   *
   * Without parameter servers, `optimizer` applies the mean of all ranks' gradients on every rank. When a variable is first trained, all
   * ranks receive rank 0's value. With parameter servers, the servers apply each rank's gradients separately, and send the new values back
   * to that rank.
   * @param loss returns the mean loss over this rank's examples as a scalar.
   * @returns the mean loss over all ranks' examples or, with parameter servers, over this rank's examples.
   * @throws TonyError USAGE, RANKS_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  async step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions = {}): Promise<number> {
    checkCustomStepOptions('cluster.step', options);
    const value = await this.#step(loss, optimizer, options);
    if (!Number.isFinite(value) && !this.#hasDiverged) {
      this.#hasDiverged = true;
      // With parameter servers, a rank does not receive the other ranks' losses, so every rank reports its own loss.
      if (this.#parts.servers !== null || this.share.index === 0) {
        this.#notice(`training has diverged: a loss of cluster.step is ${value}; training continues. ${DIVERGED_HINT}`);
      }
    }
    return value;
  }

  async #step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number> {
    const { servers } = this.#parts;
    if (servers !== null) {
      const { variables, examples } = options;
      const resolve = () => (variables === undefined ? allTrainable(this.tf, [optimizer]) : trainedVariables(this.tf, variables).variables);
      return await servers.step(this.tf, loss, optimizer, resolve, examples);
    }
    return await this.#steps.step(loss, optimizer, options);
  }

  /**
   * Opens a custom training loop with checkpoints, from which a restarted program resumes. LoopOptions describes the options. Every rank
   * must open the same loops in the same order.
   * @throws TonyError USAGE, CHECKPOINT_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  async loop<T = null, State extends Json = null>(options: LoopOptions<T, State>): Promise<TrainingLoop<T, State>> {
    const { ring, servers } = this.#parts;
    this.#refuseUnranked('Set kind: gang for the role.');
    return await TrainingLoop.open(
      {
        ...this.#beginPhase('loop', options),
        rank: this.share.index,
        worldSize: this.share.count,
        stepsTogether: servers === null,
        openStrategy: (context) => servers?.openLoop(context) ?? new RingLoop(ring, this.#steps, context),
        onReport: (values, step) => this.#report(values, step),
        onNotice: this.#notice,
        unfinished: this.#unfinished,
      },
      options,
    );
  }

  #refuseUnranked(hint: string): void {
    if (!this.#parts.ranked) {
      throw new TonyError('USAGE', `the tasks of role ${this.role} have no rank, so they cannot take part in training`, { hint });
    }
  }

  #beginPhase(kind: PhaseKind, options: { readonly name?: string; readonly checkpoint?: boolean }) {
    const { tf, storage, jobId, generation, report, checkpoint, checkpointOrder, memoryMb } = this.#parts;
    const store = options.checkpoint === false ? null : this.#store;
    return {
      ...(this.#lists !== null && { lists: this.#lists }),
      ...{ tf, storage, jobId, generation, report, checkpointOrder, memoryMb },
      phase: options.checkpoint === false ? this.#phases.unkept() : this.#phases.begin(kind, options.name),
      checkpoints: store === null || checkpoint === null ? null : { store, ...checkpoint },
      stopOrders: store === null ? null : new StopOrders(storage, store.dir),
    };
  }

  /**
   * Replaces `numbers` on every rank with the sum or mean over all ranks, computed in float32. All ranks must pass the same number of
   * elements, and all ranks get bit-identical results.
   * @param numbers a vector from `vector()`, which avoids a copy, or any other array.
   * @throws TonyError USAGE, PEER_LOST, RING_MISMATCH.
   */
  async allReduce(numbers: Float32Array | number[], operation: 'sum' | 'mean' = 'sum'): Promise<void> {
    const ring = this.#together('allReduce');
    await inPlace(numbers, (vector) => ring.allReduce(vector, operation));
  }

  /** Returns a vector of zeros that `allReduce` can process without a copy. */
  vector(length: number): Float32Array<ArrayBuffer> {
    return this.#parts.ring.vector(length);
  }

  /**
   * Copies rank 0's values to every rank. The values can be variables, models with all their weights, or numbers.
   * @throws TonyError USAGE, RANKS_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  async broadcast(values: Float32Array | number[] | Trainable | readonly Trainable[]): Promise<void> {
    const { ring, servers, tf } = this.#parts;
    if (isNumbers(values)) {
      const together = this.#together('broadcast of numbers');
      await inPlace(values, (vector) => together.broadcast(vector));
      return;
    }
    const variables = allVariables(tf, values);
    if (servers !== null) {
      await servers.broadcast(tf, variables);
      return;
    }
    await broadcastVariables(tf, ring, variables);
  }

  /** Waits until every rank has called `barrier`. */
  async barrier(): Promise<void> {
    await this.#together('barrier').barrier();
  }

  #together(what: string): Ring {
    if (this.#parts.servers !== null) {
      throw unsupportedWithServers(what);
    }
    return this.#parts.ring;
  }

  /**
   * Reads a file from the job's data, for example `read('mnist', 'train-images-idx3-ubyte')`.
   * @throws TonyError NOT_FOUND, ACCESS_DENIED, HDFS_UNREACHABLE, or USAGE if the job has no data named `name`.
   */
  async read(name: string, file: string): Promise<Buffer> {
    return await this.storage.read(joinUri(this.#folder(name), file));
  }

  /**
   * Returns the URI of a file in the job's data. `file` may be a pattern, for example `data.tfRecords(cluster.uri('mnist', 'train-*'))`. A
   * backslash before a special character of patterns makes it an ordinary one.
   * @throws TonyError USAGE if the job has no data named `name`.
   */
  uri(name: string, file: string): string {
    return patternUri(this.#folder(name), file);
  }

  #folder(name: string): string {
    const folder = this.data[name];
    if (folder === undefined) {
      const known = Object.keys(this.data).join(', ') || 'none';
      throw new TonyError('USAGE', `the job has no data named ${name} (known: ${known})`, {
        hint: `Add it under data: in job.yaml, or pass join({ data: { ${name}: 'folder' } }) in a program without a job.`,
      });
    }
    return folder;
  }

  /** Reads a file in MNIST's IDX format as examples for `fit`, for example `idx('mnist', 'train-images-idx3-ubyte')`. */
  async idx(name: string, file: string): Promise<Column> {
    const uri = joinUri(this.#folder(name), file);
    return parseIdx(await this.storage.read(uri), uri);
  }

  /**
   * Reports current values to the job and writes them as summaries. `tony-ts` displays the values while the job runs, and the last values
   * become the job's metrics.
   * @param values the values by name, for example `{ 'test/accuracy': 0.98 }`.
   * @param options.step the number of the training step that the values belong to.
   * @throws TonyError USAGE if a value is not a number or the step is not a whole number of at least 0.
   */
  report(values: Readonly<Record<string, number>>, options: { readonly step: number }): void {
    checkReport('cluster.report', values, options);
    this.#report(values, options.step);
  }

  #report(values: Readonly<Record<string, number>>, step: number): void {
    this.#parts.report({ type: 'progress', step, metrics: values });
    this.summaries.scalars(values, step);
  }

  /**
   * Shows a message to the job's user: on the job's pages, in `tony-ts status` and on stderr.
   * @param options.about the subject. A later message with the same subject replaces this message.
   */
  notice(text: string, options: { readonly about?: string } = {}): void {
    checkOptionValues('cluster.notice', options, { about: isTextNotEmpty });
    this.#notice(text, options.about);
  }

  /**
   * Yields the job's newest checkpoint whenever a new one appears. Ends when the training program has ended. For use in evaluators. A
   * callback of `fit` must not wait for a checkpoint, because the ranks complete a checkpoint only while they take further steps.
   * @param options `phase` restricts the checkpoints to one phase, and `everyMs` sets the polling interval.
   */
  async *checkpoints(
    options: { readonly everyMs?: number; readonly signal?: AbortSignal; readonly phase?: string } = {},
  ): AsyncGenerator<Checkpoint, void> {
    checkOptionValues('checkpoints', options, { everyMs: isPositiveNumber, signal: isObject, phase: isTextNotEmpty });
    const store = this.#storeOfJob();
    const jobId = this.#parts.jobId === '' ? null : this.#parts.jobId;
    const follow = { ...options, jobId, onTrouble: this.#notice };
    for await (const stored of followCheckpoints(store, follow)) {
      yield checkpointOf(this.tf, stored);
    }
  }

  /**
   * Evaluates the newest checkpoint on held-out data whenever a new one appears, until the training program has ended. For use in
   * evaluators. A task with a rank cannot call it, because it would wait for its own end.
   *
   * Reports metrics to the job and records the best checkpoint. Also writes summaries, as a run named after the role. With the `patience`
   * option, ends training when the evaluation stops improving.
   * @param model a compiled model with the same layers as the trained model. Its weights are replaced.
   * @param data tensors, arrays with a shape, a dataset, or `[x, y]`.
   * @throws TonyError USAGE, MODEL_INVALID, DATA_INVALID, CHECKPOINT_MISMATCH.
   */
  async evaluateCheckpoints(
    model: tfjs.LayersModel,
    data: ValidationData,
    options: EvaluateCheckpointsOptions = {},
  ): Promise<EvaluationReport> {
    const { jobId, report, ranked } = this.#parts;
    if (ranked && jobId !== '') {
      throw new TonyError(
        'USAGE',
        `${this.role}:${this.index} trains, so cluster.evaluateCheckpoints would wait for the end of its own program`,
        {
          hint: 'Call it in the evaluator role, or in another role of kind independent. To evaluate a model here, use cluster.evaluate.',
        },
      );
    }
    const world: EvaluationWorld = {
      tf: this.tf,
      storage: this.storage,
      store: this.#storeOfJob(),
      jobId,
      holder: `${this.role}-${this.index}`,
      onValues: (step, values, best) => {
        const named = Object.entries({ ...values, ...best }).map(([name, value]) => [`${this.role}/${name}`, value]);
        report({ type: 'progress', step, metrics: Object.fromEntries(named) });
        this.summaries.scalars(values, step);
      },
      onNotice: this.#notice,
    };
    return await new Evaluator(world, model, data, options).run();
  }

  #storeOfJob(): CheckpointStore {
    if (this.#store === null) {
      throw new TonyError('USAGE', 'no checkpoint folder is configured', {
        hint: 'Pass join({ checkpoint: { dir } }) in a program without a job.',
      });
    }
    return this.#store;
  }

  /**
   * Closes the connections to the other ranks immediately, and then writes the remaining summaries. A closed cluster cannot train. The call
   * is optional, because the same happens when the program exits. Called in the middle of training on every rank, before
   * `process.exit(0)`, it ends training on purpose, without a final checkpoint.
   * @returns a promise that resolves when everything has been written. A program that exits earlier writes the rest on exit.
   */
  async close(): Promise<void> {
    this.#disconnect();
    await this.#ending.close();
    this.storage.close();
  }

  #disconnect(): void {
    if (this.#isDisconnected) {
      return;
    }
    this.#isDisconnected = true;
    this.#steps.dispose();
    this.#parts.servers?.close();
    this.#parts.ring.close();
  }
}
