/** The public API of the training library: `import { join } from 'tony-ts/training'`. */

export type { LoadedCheckpoint } from '../contract/checkpoint/checkpoint-store.ts';
export type { Column } from '../contract/encoding/idx.ts';
export type { Summaries } from '../contract/summary/summary.ts';
export type { Hyperparameters, HyperparameterValue, Metric } from '../contract/summary/summary-hparams.ts';
export type { Numbers } from '../contract/summary/summary-numbers.ts';
export { TonyError } from '../platform/errors.ts';
export type { Storage } from '../storage/storage.ts';
export { joinUri } from '../storage/uri.ts';
export type { BackendName } from './backend/backend.ts';
export type { Checkpoint } from './cluster/checkpoint.ts';
export type { Cluster } from './cluster/cluster.ts';
export type { EvaluateCheckpointsOptions, Evaluation, EvaluationReport } from './cluster/evaluator.ts';
export { type JoinCheckpoint, type JoinOptions, join } from './cluster/join.ts';
export { runCall } from './cluster/run-call.ts';
export type { TrainingData } from './data/data.ts';
export * as data from './data/data-namespace.ts';
export type { FitData, ValidationData } from './data/fit-data.ts';
export {
  decodeExample,
  decodeSequenceExample,
  encodeExample,
  encodeSequenceExample,
  type Feature,
  type Features,
  type FeatureValue,
  type SequenceExample,
} from './data/formats/example.ts';
export type { FileContents } from './data/formats/file-format.ts';
export type { IdxOptions, IdxRecord } from './data/formats/idx-format.ts';
export { type Channels, type DecodeImageOptions, decodeImage } from './data/formats/image.ts';
export type { TextOptions } from './data/formats/line-format.ts';
export {
  type ExampleSchema,
  type FixedLenFeature,
  fixedLenFeature,
  type ParsedExample,
  parseExample,
  type VarLenFeature,
  varLenFeature,
} from './data/formats/parse-example.ts';
export type { SourceOptions } from './data/formats/source-options.ts';
export type { AvroOptions } from './data/formats/tables/avro-format.ts';
export type { ColumnConfig, ColumnConfigs, CsvOptions, CsvRow, CsvRowOf, LabelledCsvRow } from './data/formats/tables/csv.ts';
export type { ParquetOptions } from './data/formats/tables/parquet-format.ts';
export type { TableRow } from './data/formats/tables/table-values.ts';
export type { TableValue } from './data/formats/tables/value-kinds.ts';
export type { RecordOptions } from './data/formats/tfrecord-format.ts';
export { shardName, type WriteTfRecordOptions, type WrittenTfRecords, writeTfRecords } from './data/formats/tfrecord-writer.ts';
export type { ChosenColumns } from './data/frames/chosen-columns.ts';
export type { LocalCopyOptions } from './data/local-copy/local-blocks.ts';
export type { DataFile, ExactName, Files } from './data/reading/file-set.ts';
export { Dataset } from './data/sources/dataset.ts';
export type { DatasetReader, ReadOptions } from './data/sources/dataset-reader.ts';
export type { FeedSourceOptions } from './data/sources/feed-source.ts';
export type { DataFrameOptions, TrainingRow } from './data/sources/frame-source.ts';
export type { ImageElement, ImageOptions } from './data/sources/image-files.ts';
export type { ColumnLike, ColumnsLike, Examples } from './data/standard-data.ts';
export type { TrainingElement } from './data/training-element.ts';
export type { CacheOptions } from './data/transforms/cache.ts';
export type { Batched } from './data/transforms/collate.ts';
export type { InterleaveOptions } from './data/transforms/interleave.ts';
export type { PaddedBatchOptions } from './data/transforms/pad.ts';
export type { SampleOptions } from './data/transforms/sample.ts';
export type { ExportLayersOptions } from './export/layers-model.ts';
export type { Models } from './export/models.ts';
export type { LoadSavedModelOptions, SavedModel, TensorDescription } from './export/saved-model.ts';
export type { WarmStart, WarmStartOptions } from './export/warm-start.ts';
export type { BatchLogs, EpochLogs, FitCallbacks } from './fit/callbacks.ts';
export type { EvaluateOptions } from './fit/evaluate.ts';
export type { ClassWeight, ClassWeights } from './fit/example-weights.ts';
export type { FitHistory } from './fit/fit-history.ts';
export type { FitOptions, FitSummaries } from './fit/fit-options.ts';
export type { LearningRate, ScheduleStep } from './fit/learning-rate.ts';
export type { BatchTensors, LoopStep, LoopStepOptions, TrainingLoop } from './fit/loop.ts';
export type { LoopOptions } from './fit/loop-options.ts';
export type { ModelPredictOptions, PredictFunction, PredictOptions, PredictReport } from './inference/predict.ts';
export type { PredictFormat } from './inference/predict-format.ts';
export type { InferenceModel, Prediction, Values } from './inference/predict-model.ts';
export type { LayerWeight, Trainable } from './model/trainables.ts';
export type { CustomStepOptions } from './strategy/custom-step-options.ts';
export type { LoopParts } from './strategy/loop-state.ts';
export type { Placement } from './strategy/placement.ts';
export type { SweepOptions, SweepReport, Trial } from './sweep/sweep.ts';
export { type Configuration, type Drawn, grid, type Range, randomSearch } from './sweep/sweep-space.ts';
export type { SweepMode, TrialResult } from './sweep/sweep-table.ts';
