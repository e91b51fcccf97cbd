import type * as tfjs from '@tensorflow/tfjs';
import { checkOptionValues, isWhole, type OptionRules } from '../../platform/check-options.ts';
import { BATCH_SIZE, type ValidationData } from '../data/fit-data.ts';
import { inspectModel } from '../model/compiled-model.ts';
import { Validation, type ValidationWorld } from './validation.ts';

export interface EvaluateOptions {
  /** The number of examples per batch. Must be absent for a dataset that is already batched. Default: 32. */
  readonly batchSize?: number;
  /** For a dataset, the number of batches of each rank to evaluate. Default: all batches. */
  readonly batches?: number;
}

const OPTIONS: OptionRules<EvaluateOptions> = { batchSize: isWhole(1), batches: isWhole(1) };

/** Random numbers that `prepare` and the model draw are the same in each evaluation. */
const SEED = 1;

/** Computes the loss and the metrics of a compiled model on the data, in one pass that the ranks share. See Cluster.evaluate. */
export async function evaluate(
  world: ValidationWorld,
  model: tfjs.LayersModel,
  data: ValidationData,
  options: EvaluateOptions,
): Promise<Record<string, number>> {
  checkOptionValues('evaluate', options, OPTIONS);
  const compiled = inspectModel(world.tf, model);
  const { batchSize = BATCH_SIZE, batches } = options;
  const means = await new Validation(world, compiled, data, { batchSize, batches }).run(SEED);
  return Object.fromEntries(compiled.metricNames.map((name, index) => [name, means[index] as number]));
}
