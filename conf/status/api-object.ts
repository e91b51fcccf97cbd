import type { TonyError } from '../../platform/errors.ts';
import { MEBIBYTE } from '../values/units.ts';

/*
 * The outer form of every JSON object that a command prints or that the HTTP API answers: `apiVersion` and `kind`, then the object's own
 * fields. Programs keep times in ms since the epoch, in fields whose names are `at` or end with `At`; JSON contains them as RFC 3339 strings
 * in UTC. Programs keep requested memory in MiB, in `memory` and `memoryMb`; JSON contains it as `memoryBytes`.
 */

export const API_VERSION = 'tony-ts/v1';

/** Kinds of JSON objects. docs/api.schema.json describes the fields of each. */
export const API_KINDS = [
  'CacheEntry',
  'Check',
  'ConfigKey',
  'Configuration',
  'Error',
  'ErrorCode',
  'EventList',
  'FeedDoors',
  'File',
  'FileCopy',
  'Job',
  'JobDescription',
  'JobEvent',
  'JobHistory',
  'JobList',
  'Kill',
  'LogLine',
  'LogTail',
  'Node',
  'Notice',
  'QuotaCheck',
  'Quotas',
  'QuotaUsage',
  'Removal',
  'Runtime',
  'ScalarCharts',
  'TonyImport',
  'UsageList',
  'Version',
] as const;
export type ApiKind = (typeof API_KINDS)[number];

export interface ApiObject {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: ApiKind;
}

/** Fields whose keys the user chooses, or that are passed on as they are stored or as YARN writes them. */
const OPAQUE: ReadonlySet<string> = new Set(['metrics', 'configuration', 'body']);

const MEMORY: ReadonlySet<string> = new Set(['memory', 'memoryMb']);

/** Returns a value in the form in which it is printed or sent. */
export function apiObject(kind: ApiKind, value: object): ApiObject {
  return { apiVersion: API_VERSION, kind, ...(sent(value) as object) };
}

/** Returns the JSON object that describes an error. */
export function errorObject({ code, message, hint, exitCode, retryable }: TonyError): ApiObject {
  return apiObject('Error', { code, message, hint, exitCode, retryable });
}

/** Reverses the conversion of times by `apiObject`. */
export function withMilliseconds(value: unknown): unknown {
  return converted(value, (key, each): Field | null => {
    const ms = isTime(key) && typeof each === 'string' ? Date.parse(each) : Number.NaN;
    return Number.isNaN(ms) ? null : [key, ms];
  });
}

type Field = readonly [key: string, value: unknown];

function sent(value: unknown): unknown {
  return converted(value, (key, each): Field | null => {
    if (isTime(key)) {
      return [key, typeof each === 'number' ? timeText(each) : each];
    }
    const bytes = MEMORY.has(key) ? bytesOf(each) : null;
    return bytes === null ? null : ['memoryBytes', bytes];
  });
}

/** Returns an amount of memory in bytes, or a range of amounts. Returns null for any other value, such as the quotas of a role. */
function bytesOf(value: unknown): unknown {
  if (typeof value === 'number') {
    return value * MEBIBYTE;
  }
  if (typeof value === 'object' && value !== null && 'min' in value && 'max' in value) {
    return { min: Number(value.min) * MEBIBYTE, max: Number(value.max) * MEBIBYTE };
  }
  return null;
}

/** Copies a value. `convert` returns a field to use instead of an original one, or null to copy the field's value in the same way. */
function converted(value: unknown, convert: (key: string, value: unknown) => Field | null): unknown {
  if (Array.isArray(value)) {
    return value.map((each) => converted(each, convert));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, each]): Field => convert(key, each) ?? [key, OPAQUE.has(key) ? each : converted(each, convert)]),
  );
}

function isTime(key: string): boolean {
  return key === 'at' || key.endsWith('At');
}

/** Users can edit the files in a history, so a stored time may be outside the range of RFC 3339. */
function timeText(ms: number): string | null {
  const date = new Date(ms);
  const year = date.getUTCFullYear();
  return year >= 0 && year <= 9999 ? date.toISOString() : null;
}
