import { bytes, double, integer, text, WIRE } from '../encoding/protobuf.ts';
import { emptyTensor, type TensorValue } from './event-file.ts';

/*
 * The data of the HParams plugin (tensorboard/plugins/hparams/plugin_data.proto and api.proto), in the metadata of three tags. Each tag
 * contains an HParamsPluginData with one of the fields 2 experiment, 3 session_start_info, 4 session_end_info.
 *
 *   Experiment:       3 time_created_secs double, 4 hparam_infos, repeated, 5 metric_infos, repeated
 *   HParamInfo:       1 name string, 4 type enum: STRING = 1, BOOL = 2, FLOAT64 = 3
 *   MetricInfo:       1 name { 1 group string, 2 tag string }, 3 display_name string; a group is a folder below the run, and an empty group
 *                     is the run itself
 *   SessionStartInfo: 1 hparams, a map { 1 key string, 2 google.protobuf.Value }, 4 group_name string, 5 start_time_secs double
 *   Value:            2 number double, 3 string, 4 bool
 *   SessionEndInfo:   1 status enum: SUCCESS = 1, FAILURE = 2, 2 end_time_secs double
 */

export type HyperparameterValue = string | number | boolean;
export type Hyperparameters = Readonly<Record<string, HyperparameterValue>>;

export interface Metric {
  readonly tag: string;
  /** The column title. Default: the tag. */
  readonly title?: string;
}

type Seconds = number;

/** Encodes the experiment, which lists the metric columns. Without an experiment, TensorBoard shows every scalar in the run as a metric. */
export function experimentValue(created: Seconds, values: Hyperparameters, metrics: readonly Metric[]): TensorValue {
  const infos = sorted(values).map(([name, value]) => bytes(4, text(1, name), integer(4, TYPES[typeof value as keyof typeof TYPES])));
  const columns = metrics.map(({ tag, title = '' }) => bytes(5, bytes(1, text(2, tag)), text(3, title)));
  return pluginValue('_hparams_/experiment', bytes(2, double(3, created), ...infos, ...columns));
}

/**
 * Encodes the start of a session.
 * @param trial the row name in the HParams tab. Runs with the same trial share a row.
 */
export function sessionStartValue(started: Seconds, values: Hyperparameters, trial: string): TensorValue {
  const entries = sorted(values).map(([name, value]) => bytes(1, text(1, name), bytes(2, encodeValue(value))));
  return pluginValue('_hparams_/session_start_info', bytes(3, ...entries, text(4, trial), double(5, started)));
}

export function sessionEndValue(ended: Seconds, succeeded: boolean): TensorValue {
  return pluginValue('_hparams_/session_end_info', bytes(4, integer(1, succeeded ? 1 : 2), double(2, ended)));
}

const TYPES = { string: 1, boolean: 2, number: 3 } as const;

function sorted(values: Hyperparameters): [string, HyperparameterValue][] {
  return Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Encodes a google.protobuf.Value. Writes zero values too, because the fields belong to a oneof. */
function encodeValue(value: HyperparameterValue): Buffer {
  switch (typeof value) {
    case 'string':
      return bytes(3, Buffer.from(value));
    case 'boolean':
      return Buffer.of((4 << 3) | WIRE.varint, value ? 1 : 0);
    case 'number': {
      const number = Buffer.alloc(9);
      number[0] = (2 << 3) | WIRE.eightBytes;
      number.writeDoubleLE(value, 1);
      return number;
    }
  }
}

function pluginValue(tag: string, content: Buffer): TensorValue {
  return { tag, plugin: 'hparams', content, tensor: emptyTensor() };
}
