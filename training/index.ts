/** What a training program imports: `import { join } from 'tony-ts/training'`. */
export { TonyError } from '../conf/errors.ts';
export type { Storage } from '../storage/storage.ts';
export type { BackendName } from './backend.ts';
export type { Checkpoint, Cluster } from './cluster.ts';
export type { Column, TrainingData } from './data.ts';
export type { FitCallbacks, FitHistory, FitOptions, FitSummaries } from './fit.ts';
export { type JoinOptions, join } from './join.ts';
export type { Numbers, Summaries } from './summary.ts';
export type { Hyperparameters, HyperparameterValue, Metric } from './summary-hparams.ts';
