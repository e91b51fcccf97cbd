/** What a training program imports: `import { join } from 'tony-ts/training'`. */
export { TonyError } from '../conf/errors.ts';
export type { Storage } from '../storage/storage.ts';
export type { BackendName } from './backend.ts';
export type { BatchLogs, EpochLogs, FitCallbacks } from './callbacks.ts';
export type { Checkpoint, Cluster } from './cluster.ts';
export type { Column, TrainingData } from './data.ts';
export type { CacheOptions } from './datasets/cache.ts';
export type { Batched } from './datasets/collate.ts';
export type { ColumnConfig, CsvOptions, CsvRow, LabelledCsvRow } from './datasets/csv.ts';
export { Dataset } from './datasets/dataset.ts';
export type { DatasetReader, ReadOptions } from './datasets/dataset-reader.ts';
export {
  decodeExample,
  decodeSequenceExample,
  encodeExample,
  encodeSequenceExample,
  type Feature,
  type Features,
  type FeatureValue,
  type SequenceExample,
} from './datasets/example.ts';
export { type FeedOptions, fromFeed } from './datasets/feed-source.ts';
export type { FileContents } from './datasets/file-format.ts';
export type { DataFile, Files } from './datasets/file-set.ts';
export type { SourceOptions } from './datasets/file-source.ts';
export type { IdxOptions, IdxRecord } from './datasets/idx-format.ts';
export { type Channels, type DecodeImageOptions, decodeImage } from './datasets/image.ts';
export type { ImageElement, ImageOptions } from './datasets/image-files.ts';
export type { InterleaveOptions } from './datasets/interleave.ts';
export type { LocalCopyOptions } from './datasets/local-blocks.ts';
export type { PaddedBatchOptions } from './datasets/pad.ts';
export {
  type ExampleSchema,
  type FixedLenFeature,
  fixedLenFeature,
  type ParsedExample,
  parseExample,
  type VarLenFeature,
  varLenFeature,
} from './datasets/parse-example.ts';
export type { SampleOptions } from './datasets/sample.ts';
export {
  binaryFiles,
  csv,
  files,
  fromArray,
  fromGenerator,
  fromTfDataset,
  idx,
  imageClasses,
  images,
  jsonl,
  lines,
  sampleFrom,
  tfrecords,
  zip,
} from './datasets/sources.ts';
export type { RecordOptions } from './datasets/tfrecord-format.ts';
export { shardName, type WriteTfRecordOptions, type WrittenTfRecords, writeTfRecords } from './datasets/tfrecord-writer.ts';
export type { TrainingElement } from './datasets/training-element.ts';
export type { EvaluateOptions, Evaluation, EvaluationReport } from './evaluator.ts';
export type { ClassWeight, ClassWeights } from './example-weights.ts';
export { exportGraphModel, loadGraphModel } from './export/graph-model.ts';
export { type ExportLayersOptions, exportLayersModel, loadLayersModel, type ModelWorld } from './export/layers-model.ts';
export type { LoadedCheckpoint, Models } from './export/models.ts';
export type { WarmStart, WarmStartOptions } from './export/warm-start.ts';
export type { FitHistory } from './fit.ts';
export type { FitData, ValidationData } from './fit-data.ts';
export type { FitOptions, FitSummaries } from './fit-options.ts';
export { type JoinOptions, join } from './join.ts';
export type { LearningRate, ScheduleStep } from './learning-rate.ts';
export type { Placement } from './parameter-server/placement.ts';
export { type ModelPredictOptions, type PredictFunction, type PredictOptions, type PredictReport, predict } from './predict.ts';
export type { PredictFormat } from './predict-format.ts';
export type { InferenceModel, Prediction, Values } from './predict-model.ts';
export { runCall } from './run-call.ts';
export type { Numbers, Summaries } from './summary.ts';
export type { Hyperparameters, HyperparameterValue, Metric } from './summary-hparams.ts';
export { type SweepOptions, type SweepReport, sweep, type Trial } from './sweep.ts';
export { type Configuration, type Drawn, grid, type Range, randomSearch } from './sweep-space.ts';
export type { Goal, TrialResult } from './sweep-table.ts';
