/** Trains with all ranks in one process. Each rank has its own Ring. */
import * as tf from '@tensorflow/tfjs';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import type { SummaryWriter } from '../../contract/summary/summary.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { Phases } from '../checkpoint/phases.ts';
import { StopOrders } from '../checkpoint/stop-order.ts';
import type { TrainingData } from '../data/data.ts';
import type { FitData } from '../data/fit-data.ts';
import { type FitEnvironment, fit as fitModel } from '../fit/fit.ts';
import type { FitHistory } from '../fit/fit-history.ts';
import type { FitOptions } from '../fit/fit-options.ts';
import { allReduceStrategy } from '../strategy/all-reduce/all-reduce-strategy.ts';
import { ringOf } from './resources.ts';

export interface World {
  /** The checkpoint folder. Default: no checkpoints. */
  readonly folder?: string;
  /** Default: no checkpoints between the steps. */
  readonly everySteps?: number;
  readonly everyMs?: number;
  /** Each rank's clock, which measures `everyMs`. */
  readonly clocks?: readonly (() => number)[];
  readonly generation?: number;
  readonly jobId?: string;
  /** Each rank's phases. Default: new phases for each call. */
  readonly phases?: readonly Phases[];
  /** Each rank's checkpoint orders. Default: none. */
  readonly checkpointOrders?: readonly CheckpointOrder[];
  /** The container memory per rank, in MiB. Default: unknown. */
  readonly memoryMb?: number;
  /** For each rank, the array to which it appends its reports. */
  readonly reports?: Report[][];
  /** Rank 0's summary writer. */
  readonly summaries?: SummaryWriter;
}

/** @param options the same options for all ranks, or a function that returns the options for each rank. */
export async function fitTogether(
  models: readonly tf.LayersModel[],
  data: FitData | ((rank: number) => FitData),
  options: FitOptions | ((rank: number) => FitOptions),
  world: World = {},
): Promise<FitHistory[]> {
  const rings = await ringOf(models.length);
  const storage = new FileStorage();
  const { jobId = 'application_1_0001' } = world;
  return await Promise.all(
    rings.map((ring, rank) => {
      const environment: FitEnvironment = {
        tf,
        strategy: allReduceStrategy(ring),
        storage,
        jobId,
        generation: world.generation ?? 1,
        phase: world.phases?.[rank]?.begin('fit') ?? new Phases(jobId).begin('fit'),
        checkpoints:
          world.folder === undefined
            ? null
            : {
                store: new CheckpointStore(storage, fileUri(world.folder)),
                everySteps: world.everySteps ?? null,
                everyMs: world.everyMs ?? null,
                keep: 3,
              },
        ...(world.folder === undefined ? {} : { stopOrders: new StopOrders(storage, fileUri(world.folder)) }),
        ...(world.checkpointOrders?.[rank] === undefined ? {} : { checkpointOrder: world.checkpointOrders[rank] }),
        ...(world.clocks?.[rank] === undefined ? {} : { now: world.clocks[rank] }),
        memoryMb: world.memoryMb ?? null,
        summaries: rank === 0 ? (world.summaries ?? null) : null,
        report: (report) => world.reports?.[rank]?.push(report),
      };
      const own = typeof data === 'function' ? data(rank) : data;
      return fitModel(environment, models[rank] as tf.LayersModel, own, typeof options === 'function' ? options(rank) : options);
    }),
  );
}

/** A classifier with 4 input numbers and 3 classes. The same seed always creates the same model. */
export function classifier(optimizer: tf.Optimizer, { seed = 7, dropout = 0 } = {}): tf.Sequential {
  const kernel = (add: number) => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: seed + add }) });
  const model = tf.sequential();
  model.add(tf.layers.dense({ units: 8, activation: 'tanh', inputShape: [4], ...kernel(0) }));
  if (dropout > 0) {
    model.add(tf.layers.dropout({ rate: dropout }));
  }
  model.add(tf.layers.dense({ units: 3, activation: 'softmax', ...kernel(1) }));
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

/** Creates examples whose classes the classifier can learn. */
export function examples(count: number, from = 0): TrainingData & { readonly x: tf.Tensor2D; readonly y: tf.Tensor2D } {
  const values = Float32Array.from({ length: count * 4 }, (_, index) => Math.sin((index + from * 4) * 1.7) * 2);
  const labels = Int32Array.from({ length: count }, (_, example) => {
    const at = example * 4;
    return (values[at] as number) > 0.3 ? 0 : (values[at + 1] as number) > 0 ? 1 : 2;
  });
  return { x: tf.tensor2d(values, [count, 4]), y: tf.tidy(() => tf.oneHot(tf.tensor1d(labels, 'int32'), 3).toFloat() as tf.Tensor2D) };
}

export function weightsOf(model: tf.LayersModel): number[] {
  return model.getWeights().flatMap((weight) => [...weight.dataSync()]);
}
