/** Runs programs with all ranks in this process: undisturbed, and killed and resumed. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import { listening } from '../../../contract/testing/listening.ts';
import type { TonyError } from '../../../platform/errors.ts';
import { Secret } from '../../../platform/secret.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import { Phases } from '../../checkpoint/phases.ts';
import { StopOrders } from '../../checkpoint/stop-order.ts';
import type { FitData } from '../../data/fit-data.ts';
import { fromArray } from '../../data/sources/sources.ts';
import { exportLayersModel, loadLayersModel } from '../../export/layers-model.ts';
import type { FitCallbacks } from '../../fit/callbacks.ts';
import { fit as fitModel } from '../../fit/fit.ts';
import type { FitHistory } from '../../fit/fit-history.ts';
import type { FitOptions } from '../../fit/fit-options.ts';
import { TrainingLoop } from '../../fit/loop.ts';
import { UnfinishedTraining } from '../../fit/unfinished-training.ts';
import { learningRateOf, setLearningRate } from '../../optimizer/optimizer-members.ts';
import { ParameterServer } from '../../parameter-server/server/serve.ts';
import { ParameterServerWorker } from '../../parameter-server/worker/parameter-server-worker.ts';
import { allReduceStrategy } from '../../strategy/all-reduce/all-reduce-strategy.ts';
import { CustomSteps } from '../../strategy/all-reduce/custom-steps.ts';
import { RingLoop } from '../../strategy/all-reduce/ring-loop.ts';
import type { LoopStrategy } from '../../strategy/loop-strategy.ts';
import type { StrategyFactory } from '../../strategy/strategy.ts';
import { joinRing } from '../join-ring.ts';
import { makeOwn, OWN_KINDS, type OwnKind } from './own-optimizers.ts';
import type { OptimizerKind, ResumePhase, ResumeProgram } from './program.ts';

const APPLICATION = 'application_1_0001';
const EXAMPLES = 13;
const storage = new FileStorage();

class Killed extends Error {}

/** A process's result, which must not depend on kills. */
export interface Ending {
  readonly weights: readonly (readonly number[])[];
  readonly averages: readonly number[];
  readonly rates: readonly number[];
  readonly histories: readonly unknown[];
  readonly states: readonly unknown[];
}

/** How a program ends whose loss is not a finite number. The message names the step. */
export interface Divergence {
  readonly diverged: string;
}

interface Gang {
  readonly ranks: readonly {
    readonly rank: number;
    readonly strategy: StrategyFactory;
    readonly openLoop: (context: Parameters<StrategyOpener>[0]) => LoopStrategy;
    readonly stepsTogether: boolean;
  }[];
  close(): void;
}

type StrategyOpener = Parameters<typeof TrainingLoop.open>[0]['openStrategy'];

/** A generation of a program. */
export interface Attempt {
  readonly program: ResumeProgram;
  /** Folder of the checkpoints. */
  readonly folder: string;
  readonly generation: number;
  /** The step after which the generation is killed, or null. */
  readonly kill: number | null;
}

/** Runs a generation as a new process would. Returns null if it was killed. */
export type Attempting = (attempt: Attempt) => Promise<Ending | Divergence | null>;

/** Runs a generation in this process. All its ranks stop after the same step, without a signal. */
export const attemptHere: Attempting = (given) =>
  attempt(given, () => {
    throw new Killed();
  });

/** Runs a generation in this process, which a real SIGKILL ends. */
export const attemptUntilSignal: Attempting = (given) => attempt(given, () => process.kill(process.pid, 'SIGKILL'));

/** Describes how the resumed program's end differs from the undisturbed one's. Null if the bits are equal. */
export async function differenceAfterKills(program: ResumeProgram, run: Attempting = attemptHere): Promise<string | null> {
  const folder = await mkdtemp(path.join(tmpdir(), 'resume-'));
  try {
    const expected = await run({ program, folder: path.join(folder, 'undisturbed'), generation: 1, kill: null });
    const where = path.join(folder, 'killed');
    let ending: Ending | Divergence | null = null;
    for (const [index, kill] of [...program.kills, null].entries()) {
      ending = await run({ program, folder: where, generation: index + 1, kill });
      if (ending !== null) {
        break;
      }
    }
    return firstDifference(ending, expected);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function firstDifference(actual: unknown, expected: unknown, at = ''): string | null {
  if (typeof actual === 'object' && actual !== null && typeof expected === 'object' && expected !== null) {
    for (const key of new Set([...Object.keys(actual), ...Object.keys(expected)])) {
      const found = firstDifference((actual as Record<string, unknown>)[key], (expected as Record<string, unknown>)[key], `${at}.${key}`);
      if (found !== null) {
        return found;
      }
    }
    return null;
  }
  return Object.is(actual, expected) ? null : `${at.slice(1)} is ${String(actual)} instead of ${String(expected)}`;
}

async function attempt({ program, folder, generation, kill }: Attempt, onKill: () => void): Promise<Ending | Divergence | null> {
  const before = new Set(Object.values(tf.engine().registeredVariables));
  const gang = await openGang(program, folder, generation);
  try {
    const endings = await Promise.allSettled(gang.ranks.map((own) => runRank(program, own, { folder, generation, kill, onKill })));
    const isFailed = (each: PromiseSettledResult<Ending>) => each.status === 'rejected' && !(each.reason instanceof Killed);
    // A rank that has failed is lost to the others, whose errors say less.
    const failed =
      endings.find((each) => isFailed(each) && (each as PromiseRejectedResult).reason.code !== 'PEER_LOST') ?? endings.find(isFailed);
    if (failed?.status === 'rejected') {
      const { code, message } = failed.reason as Partial<TonyError>;
      if (code === 'TRAINING_DIVERGED') {
        // The resumed program must diverge in the same step.
        return { diverged: message as string };
      }
      throw failed.reason;
    }
    const [first] = endings;
    return first?.status === 'fulfilled' ? first.value : null;
  } finally {
    gang.close();
    for (const variable of Object.values(tf.engine().registeredVariables)) {
      if (!before.has(variable)) {
        variable.dispose();
      }
    }
  }
}

async function openGang({ workers, strategy }: ResumeProgram, folder: string, generation: number): Promise<Gang> {
  if (strategy === 'all-reduce') {
    const rings = await joinRing(workers);
    return {
      ranks: rings.map((ring) => {
        const steps = new CustomSteps(tf, ring, 'float32');
        return {
          ...{ rank: ring.rank, strategy: allReduceStrategy(ring), stepsTogether: true },
          openLoop: (context) => new RingLoop(ring, steps, context),
        };
      }),
      close: () => {
        for (const ring of rings) {
          ring.close();
        }
      },
    };
  }
  const key = new Secret(randomBytes(32));
  const places = await Promise.all([listening(), listening()]);
  const common = {
    tf,
    storage,
    worldSize: 1,
    generation,
    key,
    security: 'none' as const,
    checkpointDir: fileUri(folder),
    onNotice: () => {},
  };
  const servers = await Promise.all(places.map(({ server }, index) => ParameterServer.open({ ...common, index, listener: server })));
  const addresses = places.map(({ address }) => address);
  const worker = new ParameterServerWorker({
    ...{ rank: 0, worldSize: 1, generation, key, security: 'none', addresses, staleness: null, onLost: () => {} },
    timeouts: { graceMs: 200 },
  });
  return {
    ranks: [{ rank: 0, strategy: worker, stepsTogether: false, openLoop: (context) => worker.openLoop(context) }],
    close: () => {
      worker.close();
      for (const server of servers) {
        server.close();
      }
    },
  };
}

interface Run {
  readonly folder: string;
  readonly generation: number;
  readonly kill: number | null;
  readonly onKill: () => void;
}

async function runRank(program: ResumeProgram, own: Gang['ranks'][number], { folder, generation, kill, onKill }: Run): Promise<Ending> {
  const optimizers = program.optimizers.map((kind, index) => makeOptimizer(kind, index));
  const models = await makeModels(program, optimizers, own.rank, folder);
  const averages = models.map((model) => model.getWeights().map((weight) => tf.tidy(() => weight.clone().variable(false))));
  const phases = new Phases(APPLICATION);
  const store = new CheckpointStore(storage, fileUri(folder));
  let taken = 0;
  const stepTaken = () => {
    taken++;
    if (taken === kill) {
      onKill();
    }
  };
  const environment = {
    ...{ tf, strategy: own.strategy, storage, jobId: APPLICATION, generation },
    checkpoints: { store, everySteps: program.everySteps, keep: 2 },
    stopOrders: new StopOrders(storage, store.dir),
    ...{ summaries: null, report: () => {} },
  };
  const histories: unknown[] = [];
  const states: unknown[] = [];
  for (const phase of program.phases) {
    const model = models[phase.model] as tf.LayersModel;
    const optimizer = optimizers[phase.optimizer % optimizers.length] as tf.Optimizer;
    model.compile({ optimizer, loss: 'meanSquaredError', metrics: ['mae'] });
    const kept = averages[phase.model] as tf.Variable[];
    if (phase.do === 'fit') {
      const { options, state } = fitOptionsOf(phase, model, optimizer, kept, stepTaken);
      const { data, validation } = dataOf(program, phase);
      const history: FitHistory = await fitModel({ ...environment, phase: phases.begin('fit') }, model, data, {
        ...options,
        ...validation,
      });
      histories.push(history);
      states.push(state);
    } else {
      const loop = await TrainingLoop.open(
        {
          ...environment,
          ...{ rank: own.rank, worldSize: program.workers, stepsTogether: own.stepsTogether, openStrategy: own.openLoop },
          ...{ phase: phases.begin('loop'), onReport: () => {}, onNotice: () => {}, unfinished: new UnfinishedTraining() },
        },
        {
          ...{ models: model, optimizers: optimizer, state: { best: Number.POSITIVE_INFINITY, sum: 0 }, epochs: phase.epochs },
          variables: Object.fromEntries(kept.map((variable, index) => [`average-${index}`, variable])),
          data: fromArray(rows(program)).shuffle(5).batch(phase.batchSize),
        },
      );
      for await (const { step, batch } of loop) {
        const loss = await loop.step(() => lossOf(model, batch as unknown as Batch), optimizer, {
          variables: model.trainableWeights as never,
        });
        loop.state.best = Math.min(loop.state.best, loss);
        loop.state.sum += loss;
        if (phase.rate !== 'none' && step % 2 === 1) {
          decay(optimizer);
        }
        follow(phase, model, kept);
        if (phase.stop === 'step' && step === 3) {
          loop.stop('enough');
        }
        stepTaken();
      }
      states.push(loop.state);
    }
  }
  return {
    weights: models.map((model) => model.getWeights().flatMap((weight) => [...weight.dataSync()])),
    averages: averages.flat().flatMap((average) => [...average.dataSync()]),
    rates: optimizers.map(learningRateOf),
    histories,
    states,
  };
}

interface Batch {
  readonly xs: tf.Tensor;
  readonly ys: tf.Tensor;
}

function lossOf(model: tf.LayersModel, batch: Batch): tf.Scalar {
  const predicted = model.apply(batch.xs, { training: true }) as tf.Tensor;
  return tf.mean(tf.square(tf.sub(predicted, batch.ys))) as tf.Scalar;
}

function makeOptimizer(kind: OptimizerKind, index: number): tf.Optimizer {
  const rate = index === 0 ? 0.05 : 0.03;
  if ((OWN_KINDS as readonly string[]).includes(kind)) {
    return makeOwn(tf, kind as OwnKind, rate);
  }
  switch (kind) {
    case 'momentum':
      return tf.train.momentum(rate, 0.9);
    case 'sgd':
      return tf.train.sgd(rate);
    case 'adagrad':
      return tf.train.adagrad(rate);
    case 'adadelta':
      return tf.train.adadelta(rate * 10);
    case 'adamax':
      return tf.train.adamax(rate / 2);
    case 'rmsprop':
      return tf.train.rmsprop(rate / 5, 0.9, 0.5);
    default:
      return tf.train.adam(rate / 2);
  }
}

/** Adds noise in training and in validation, as variational models do. */
class Sampling extends tf.layers.Layer {
  static readonly className = 'Sampling';

  override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
    return tf.tidy(() => {
      const input = [inputs].flat()[0] as tf.Tensor;
      return tf.add(input, tf.randomNormal(input.shape, 0, 0.3));
    });
  }

  override computeOutputShape(shape: tf.Shape | tf.Shape[]): tf.Shape | tf.Shape[] {
    return shape;
  }
}
tf.serialization.registerClass(Sampling);

async function makeModels(
  program: ResumeProgram,
  optimizers: readonly tf.Optimizer[],
  rank: number,
  folder: string,
): Promise<tf.LayersModel[]> {
  const make = (seed: number) => {
    const dense = (units: number, add: number, more: object = {}) =>
      tf.layers.dense({ units, kernelInitializer: tf.initializers.glorotUniform({ seed: program.seed + seed + add }), ...more });
    const layers = [
      dense(3, 0, { activation: 'tanh', inputShape: [2] }),
      ...(program.batchNorm ? [tf.layers.batchNormalization({ momentum: 0.8 })] : []),
      ...(program.dropout ? [tf.layers.dropout({ rate: 0.3 })] : []),
      ...(program.sampling ? [new Sampling()] : []),
      dense(1, 1),
    ];
    return tf.sequential({ layers });
  };
  const models: tf.LayersModel[] = [make(0), make(10)];
  if (program.reloaded) {
    const [first] = models as [tf.LayersModel];
    first.compile({ optimizer: tf.train.adam(0.05), loss: 'meanSquaredError' });
    const { xs, ys } = { xs: tf.ones([4, 2]), ys: tf.zeros([4, 1]) };
    await first.fit(xs, ys, { epochs: 2, verbose: 0, shuffle: false });
    const uri = fileUri(`${folder}-exported-${rank}`);
    await exportLayersModel({ tf, storage }, first, uri, { includeOptimizer: true });
    const loaded = await loadLayersModel({ tf, storage }, uri);
    models[0] = loaded;
    (optimizers as tf.Optimizer[])[0] = loaded.optimizer;
  }
  return models;
}

function rows({ seed }: ResumeProgram): { xs: number[]; ys: number[] }[] {
  return Array.from({ length: EXAMPLES }, (_, index) => {
    const xs = [Math.sin(index * 3 + seed), Math.cos(index * 5 + seed)];
    return { xs, ys: [(xs[0] as number) * (xs[1] as number) + 0.1 * index] };
  });
}

function dataOf(program: ResumeProgram, phase: ResumePhase): { readonly data: FitData; readonly validation: Partial<FitOptions> } {
  const all = rows(program);
  const tensors = { x: tf.tensor2d(all.map(({ xs }) => xs)), y: tf.tensor2d(all.map(({ ys }) => ys)) };
  const validation = phase.validation ? { validationData: [tensors.x, tensors.y] as [tf.Tensor, tf.Tensor] } : {};
  return { data: phase.data === 'tensors' ? tensors : fromArray(all).shuffle(4), validation };
}

function decay(optimizer: tf.Optimizer): void {
  setLearningRate(optimizer, learningRateOf(optimizer) * 0.8);
}

/** Updates the moving averages of the weights. */
function follow({ average }: ResumePhase, model: tf.LayersModel, averages: readonly tf.Variable[]): void {
  if (average) {
    tf.tidy(() => {
      model.getWeights().forEach((weight, index) => {
        const kept = averages[index] as tf.Variable;
        kept.assign(tf.add(tf.mul(kept, 0.7), tf.mul(weight, 0.3)));
      });
    });
  }
}

function fitOptionsOf(
  phase: ResumePhase,
  model: tf.LayersModel,
  optimizer: tf.Optimizer,
  averages: readonly tf.Variable[],
  stepTaken: () => void,
): { readonly options: FitOptions; readonly state: Record<string, number> } {
  const { rate, stop } = phase;
  const state: Record<string, number> = { best: Number.POSITIVE_INFINITY, wait: 0, batches: 0, epochs: 0 };
  const own: FitCallbacks = {
    onTrainBegin: () => {
      state.epochs = 0;
    },
    onEpochBegin: () => {
      state.epochs = (state.epochs as number) + 1;
      if (rate === 'epoch begin') {
        decay(optimizer);
      }
    },
    onBatchEnd: (batch, logs) => {
      state.batches = (state.batches as number) + (logs.loss as number);
      if (rate === 'batch' && batch % 2 === 0) {
        decay(optimizer);
      }
      follow(phase, model, averages);
      if (stop === 'step' && logs.step === 3) {
        model.stopTraining = true;
      }
      stepTaken();
    },
    onEpochEnd: (_, logs) => {
      const isBetter = (logs.loss as number) < (state.best as number) - 0.01;
      state.wait = isBetter ? 0 : (state.wait as number) + 1;
      state.best = Math.min(state.best as number, logs.loss as number);
      if (rate === 'epoch end' || (rate === 'plateau' && !isBetter)) {
        decay(optimizer);
      }
      if (stop === 'own' && (state.wait as number) >= 1) {
        model.stopTraining = true;
      }
    },
  };
  const patience = stop === 'patience' ? [tf.callbacks.earlyStopping({ monitor: 'loss', patience: 0, minDelta: 0.02 })] : [];
  const options: FitOptions = {
    ...{ epochs: phase.epochs, batchSize: phase.batchSize, state, callbacks: [own, ...(patience as unknown as FitCallbacks[])] },
    ...(phase.data === 'dataset' ? {} : { shuffle: true }),
    variables: Object.fromEntries(averages.map((variable, index) => [`average-${index}`, variable])),
    ...(phase.restoreBest ? { restoreBest: true } : {}),
    ...(phase.clip ? { clipNorm: 0.5 } : {}),
    ...(rate === 'schedule' ? { learningRate: ({ step, initial }) => initial / (1 + step) } : {}),
  };
  return { options, state };
}
