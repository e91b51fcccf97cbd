import { isAbsolute, resolve } from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import { isUri } from '../conf/is-uri.ts';
import type { Storage } from '../storage/storage.ts';
import { fileUri, joinUri } from '../storage/uri.ts';
import { allReduceStrategy } from './all-reduce-strategy.ts';
import { type BackendName, refuseUnfitModel } from './backend.ts';
import { followCheckpoints } from './checkpoint-follower.ts';
import { CheckpointStore, type StoredCheckpoint } from './checkpoint-store.ts';
import { CheckpointThread } from './checkpoint-thread.ts';
import { weightsOf } from './compiled-model.ts';
import { type EvaluateOptions, type EvaluationReport, type EvaluationWorld, Evaluator } from './evaluator.ts';
import { Models } from './export/models.ts';
import { type FitHistory, fit as fitOnAllRanks } from './fit.ts';
import type { FitData, ValidationData } from './fit-data.ts';
import type { FitOptions } from './fit-options.ts';
import { type Column, parseIdx } from './idx.ts';
import { noSuchThing, type ParameterServerWorker } from './parameter-server/parameter-server-worker.ts';
import { beforeProgramEnds, type LastWork } from './program-end.ts';
import type { Ring } from './ring.ts';
import type { Wire } from './ring-exchange.ts';
import { Stepper } from './step.ts';
import { StopOrders } from './stop-order.ts';
import { NO_SUMMARIES, type Summaries, SummaryWriter } from './summary.ts';
import type { Report } from './task-context.ts';
import { restoreWeights } from './training-state.ts';

/** A checkpoint that an evaluator looks at. */
export interface Checkpoint {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  /** Training is over: no other one follows. */
  readonly final: boolean;
  /**
   * Puts its weights into a model of the same shape.
   * @throws TonyError CHECKPOINT_MISFIT.
   */
  restore(model: tfjs.LayersModel): void;
}

export interface ClusterParts {
  readonly tf: typeof tfjs;
  readonly backend: BackendName;
  /** Of one where workers step by parameter servers. */
  readonly ring: Ring;
  /** How gradients travel around the ring. */
  readonly wire: Wire;
  /** null: workers step together. */
  readonly servers: ParameterServerWorker | null;
  readonly ranked: boolean;
  readonly role: string;
  readonly index: number;
  readonly applicationId: string;
  readonly jobName: string;
  readonly generation: number;
  readonly data: Readonly<Record<string, string>>;
  readonly storage: Storage;
  readonly checkpoint: { readonly dir: string; readonly everySteps: number; readonly keep: number } | null;
  readonly summaryDir: string | null;
  readonly outputDir: string | null;
  readonly roleSize: number;
  readonly report: (report: Report) => void;
}

/** This process's place in a job; a world of one when it runs by itself. */
export class Cluster {
  /** TensorFlow.js with the fastest backend that there is; the same instance as the program's own `import`. */
  readonly tf: typeof tfjs;
  readonly backend: BackendName;
  /** 0 to worldSize-1 among the tasks that train together. A task outside of them (an evaluator) is the one rank of its own world. */
  readonly rank: number;
  readonly worldSize: number;
  /** How often the gang was formed: above 1 after a restart. */
  readonly generation: number;
  readonly role: string;
  readonly index: number;
  readonly applicationId: string;
  readonly jobName: string;
  /** Which one it is of those that share work: of all ranks, or, in a role without ranks, of the role's tasks. */
  readonly position: { readonly index: number; readonly count: number };
  /** URI of the job's own folder for what it computes; null when the program runs by itself and was told none. */
  readonly outputDir: string | null;
  /** URI of the folder of its summaries, in which each run is a folder; null for none. */
  readonly summaryDir: string | null;
  /** URIs of the job's input folders, by name. */
  readonly data: Readonly<Record<string, string>>;
  readonly storage: Storage;
  /** Exports, loads, and begins with the weights of another model. */
  readonly models: Models;
  /** For TensorBoard: written by rank 0 of those who train, and by others in a run of their role's name. */
  readonly summaries: Summaries;
  readonly #parts: ClusterParts;
  readonly #store: CheckpointStore | null;
  readonly #writer: SummaryWriter | null;
  readonly #steppers = new WeakMap<tfjs.Optimizer, Stepper>();
  #fitted = false;
  readonly #onExit: (code: number) => void;
  #stopLastWork: () => void = () => {};

  constructor(parts: ClusterParts) {
    const { rank, worldSize } = parts.servers ?? parts.ring;
    this.#parts = parts;
    this.tf = parts.tf;
    this.backend = parts.backend;
    this.rank = rank;
    this.worldSize = worldSize;
    this.generation = parts.generation;
    this.role = parts.role;
    this.index = parts.index;
    this.applicationId = parts.applicationId;
    this.jobName = parts.jobName;
    this.position = parts.ranked ? { index: rank, count: worldSize } : { index: parts.index, count: parts.roleSize };
    this.outputDir = parts.outputDir;
    this.summaryDir = parts.summaryDir;
    this.data = parts.data;
    this.storage = parts.storage;
    this.#store =
      parts.checkpoint === null ? null : new CheckpointStore(parts.storage, parts.checkpoint.dir, () => CheckpointThread.ofProcess());
    this.models = new Models({
      tf: this.tf,
      storage: this.storage,
      store: this.#store,
      uriOf,
      onNotice: (message) => this.#notice(message),
    });
    this.#writer = this.#openSummaries();
    this.summaries = this.#writer ?? NO_SUMMARIES;
    // A program that ends well without close() has not lost its peers.
    this.#onExit = (code) => {
      if (code === 0) {
        this.close();
      }
    };
    process.once('exit', this.#onExit);
    if (this.#writer !== null) {
      this.#stopLastWork = beforeProgramEnds(lastWorkOf(this.#writer));
    }
  }

  #openSummaries(): SummaryWriter | null {
    const { summaryDir, ranked, role, index, storage, applicationId } = this.#parts;
    if (summaryDir === null || (ranked ? this.rank > 0 : index > 0)) {
      return null;
    }
    const dir = joinUri(summaryDir, ranked ? 'train' : role);
    return new SummaryWriter({ storage, dir, trial: applicationId, onTrouble: (message) => this.#notice(message) });
  }

  /**
   * Trains a compiled model on all ranks at once; see FitOptions. `batchSize` is for each rank. When the job has a checkpoint folder,
   * training goes on from the newest good checkpoint there, and leaves new ones, the last one marked as final.
   *
   * @param data the whole of it on every rank: each takes its own share. `x` and `y` are tensors, or plain arrays with a shape.
   * @throws TonyError MODEL_INVALID, DATA_INVALID, BACKEND_UNFIT, CHECKPOINT_MISFIT, CHECKPOINT_FAILED, PEER_LOST, RING_MISMATCH.
   */
  async fit(model: tfjs.LayersModel, data: FitData, options: FitOptions & { checkpoint?: false } = {}): Promise<FitHistory> {
    const { checkpoint, applicationId, generation, report, ring, servers, backend } = this.#parts;
    refuseUnfitModel(backend, model);
    if (!this.#parts.ranked) {
      throw new TonyError('USAGE', `role ${this.role} takes no part in training together`, {
        hint: 'Use model.fit there, or set ranked: true for the role.',
      });
    }
    const checkpoints =
      this.#store === null || checkpoint === null || options.checkpoint === false ? null : { store: this.#store, ...checkpoint };
    if (checkpoints !== null && this.#fitted) {
      throw new TonyError('USAGE', 'a second fit would mix its checkpoints with those of the first', {
        hint: 'Pass { checkpoint: false } to all calls of fit but one.',
      });
    }
    this.#fitted ||= checkpoints !== null;
    return await fitOnAllRanks(
      {
        tf: this.tf,
        strategy: servers ?? allReduceStrategy(ring, this.#parts.wire),
        storage: this.storage,
        applicationId,
        generation,
        checkpoints,
        ...(checkpoints === null ? {} : { stopOrders: new StopOrders(this.storage, checkpoints.store.dir) }),
        summaries: this.#writer,
        report,
      },
      model,
      data,
      options,
    );
  }

  /**
   * One step of a loop of one's own: the gradients of `loss`, averaged over all ranks, are applied by `optimizer` everywhere.
   * Begin with equal weights: `broadcast` them. With parameter servers the gradients of this rank alone are applied there, and the
   * variables have what they have become by then; rank 0's values are the first ones.
   *
   * @param loss of this rank's examples, a scalar.
   * @param options `variables`: those to train, all trainable ones unless told; always the same ones for one optimizer.
   *   `weight`: this rank's share of the step's examples; equal shares unless told.
   * @returns the mean loss; that of this rank with parameter servers.
   */
  async step(
    loss: () => tfjs.Scalar,
    optimizer: tfjs.Optimizer,
    options: { readonly variables?: readonly tfjs.Variable[]; readonly weight?: number } = {},
  ): Promise<number> {
    const variables = () => options.variables ?? Object.values(this.tf.engine().registeredVariables).filter(({ trainable }) => trainable);
    if (this.#parts.servers !== null) {
      return await this.#parts.servers.step(this.tf, loss, optimizer, variables);
    }
    let stepper = this.#steppers.get(optimizer);
    if (stepper === undefined) {
      stepper = new Stepper(this.tf, this.#parts.ring, optimizer, variables());
      this.#steppers.set(optimizer, stepper);
    }
    const weight = options.weight ?? 1 / this.worldSize;
    const values = await stepper.run([{ compute: () => ({ loss: loss(), metrics: [] }), weight }]);
    return values.read()[0] ?? 0;
  }

  /**
   * Replaces `numbers` on every rank by the sum (or mean) over all ranks: the same bits everywhere. Equal lengths on all ranks.
   * Numbers from `vector()` are summed without being copied.
   * @throws TonyError PEER_LOST, RING_MISMATCH.
   */
  async allReduce(numbers: Float32Array, operation: 'sum' | 'mean' = 'sum'): Promise<void> {
    await this.#together('allReduce').allReduce(numbers, operation);
  }

  /** Zeros in memory that `allReduce` works on directly. */
  vector(length: number): Float32Array<ArrayBuffer> {
    return this.#parts.ring.vector(length);
  }

  /** Gives every rank the values that the variables (or the numbers) have on rank 0. */
  async broadcast(values: Float32Array | readonly tfjs.Variable[]): Promise<void> {
    const { ring, servers, tf } = this.#parts;
    if (values instanceof Float32Array) {
      await this.#together('broadcast of numbers').broadcast(values);
      return;
    }
    if (servers !== null) {
      await servers.broadcast(tf, values);
      return;
    }
    for (const variable of values) {
      const numbers = Float32Array.from(variable.dataSync());
      await ring.broadcast(numbers);
      tf.tidy(() => variable.assign(tf.tensor(numbers, variable.shape, variable.dtype)));
    }
  }

  /** Resolves when every rank has called it. */
  async barrier(): Promise<void> {
    await this.#together('barrier').barrier();
  }

  #together(what: string): Ring {
    if (this.#parts.servers !== null) {
      throw noSuchThing(what);
    }
    return this.#parts.ring;
  }

  /**
   * A file of the job's data: `read('mnist', 'train-images-idx3-ubyte')`.
   * @throws TonyError NOT_FOUND, ACCESS_DENIED, HDFS_UNREACHABLE, and USAGE when the job names no such data.
   */
  async read(name: string, file: string): Promise<Buffer> {
    return await this.storage.read(this.#uriOf(name, file));
  }

  /**
   * Where a file of the job's data lies, for datasets; the name may be a pattern: `tfrecords(cluster.uri('mnist', 'train-*'))`.
   * @throws TonyError USAGE when the job names no such data.
   */
  uri(name: string, file: string): string {
    return this.#uriOf(name, file);
  }

  /** A file in the IDX format of MNIST, as examples for `fit`: `idx('mnist', 'train-images-idx3-ubyte')`. */
  async idx(name: string, file: string): Promise<Column> {
    const uri = this.#uriOf(name, file);
    return parseIdx(await this.storage.read(uri), uri);
  }

  #uriOf(name: string, file: string): string {
    const folder = this.data[name];
    if (folder === undefined) {
      const known = Object.keys(this.data).join(', ') || 'none';
      throw new TonyError('USAGE', `the job has no data called ${name} (it has: ${known})`, {
        hint: `Add it under data: in job.yaml, or pass join({ data: { ${name}: 'folder' } }) when running alone.`,
      });
    }
    return joinUri(folder, file);
  }

  /**
   * Tells the job about values of now: they are shown by the client, and kept as the job's metrics when it ends. Also written as summaries.
   * @param values by name, e.g. `{ 'test/accuracy': 0.98 }`.
   */
  metrics(step: number, values: Readonly<Record<string, number>>): void {
    this.#parts.report({ type: 'progress', step, metrics: values });
    this.summaries.scalars(values, step);
  }

  /** Each newest checkpoint of the job as it appears; ends after the final one. For evaluators. */
  async *checkpoints(options: { readonly everyMs?: number; readonly signal?: AbortSignal } = {}): AsyncGenerator<Checkpoint, void> {
    const store = this.#storeOfJob();
    const applicationId = this.#parts.applicationId === '' ? null : this.#parts.applicationId;
    const follow = { ...options, applicationId, onTrouble: (message: string) => this.#notice(message) };
    for await (const stored of followCheckpoints(store, follow)) {
      yield this.#checkpointOf(stored);
    }
  }

  /**
   * Evaluates each newest checkpoint of the job on held-out data as it appears, until after the final one: for a role `evaluator`. Writes
   * summaries (a run of the role's name, with the tags of `fit`) and the job's metrics, names the best checkpoint, and ends training when
   * it has stopped to improve, if `patience` says so.
   *
   * @param model compiled, of the shape that is trained; its weights are replaced.
   * @param data tensors, arrays with a shape, a dataset, or `[x, y]`.
   * @throws TonyError USAGE, MODEL_INVALID, DATA_INVALID, CHECKPOINT_MISFIT.
   */
  async evaluate(model: tfjs.LayersModel, data: ValidationData, options: EvaluateOptions = {}): Promise<EvaluationReport> {
    const { applicationId, report } = this.#parts;
    const world: EvaluationWorld = {
      tf: this.tf,
      storage: this.storage,
      store: this.#storeOfJob(),
      applicationId,
      holder: `${this.role}-${this.index}`,
      onValues: (step, values, best) => {
        const named = Object.entries({ ...values, ...best }).map(([name, value]) => [`${this.role}/${name}`, value]);
        report({ type: 'progress', step, metrics: Object.fromEntries(named) });
        this.summaries.scalars(values, step);
      },
      onNotice: (message) => this.#notice(message),
    };
    return await new Evaluator(world, model, data, options).run();
  }

  #storeOfJob(): CheckpointStore {
    if (this.#store === null) {
      throw new TonyError('USAGE', 'there is no checkpoint folder', { hint: 'Pass join({ checkpointDir }) when running alone.' });
    }
    return this.#store;
  }

  #checkpointOf(stored: StoredCheckpoint): Checkpoint {
    const { tf } = this;
    const { step, epoch, final } = stored.position;
    return {
      uri: stored.uri,
      step,
      epoch,
      final,
      restore: (model) => restoreWeights(tf, weightsOf(model), stored.tensors, stored.uri),
    };
  }

  #notice(message: string): void {
    process.stderr.write(`tony-ts: ${message}\n`);
    this.#parts.report({ type: 'notice', message });
  }

  /** Writes what is left of the summaries and says goodbye to the other ranks. A program that ends by itself needs no close(). */
  async end(): Promise<void> {
    this.#writer?.endSession(true);
    await this.#writer?.finish();
    this.close();
  }

  /** Says goodbye to the other ranks at once. */
  close(): void {
    process.removeListener('exit', this.#onExit);
    this.#stopLastWork();
    this.#writer?.finishNow();
    this.#parts.servers?.close();
    this.#parts.ring.close();
    this.storage.close();
  }
}

function lastWorkOf(writer: SummaryWriter): LastWork {
  return {
    isDue: () => !writer.isEmpty,
    finish: async (succeeded) => {
      if (succeeded) {
        writer.endSession(true);
      }
      await writer.finish();
    },
    finishNow: () => writer.finishNow(),
  };
}

/** A path, or a URI as it is. */
export function uriOf(place: string): string {
  return isUri(place) ? place : fileUri(isAbsolute(place) ? place : resolve(place));
}
