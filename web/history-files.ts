import * as z from 'zod';
import { END_STATES, type HistoryEntry, type TaskUsageSample, type UsageSample } from '../conf/status/status.ts';
import { programEndSchema, taskFailureSchema } from '../conf/status/task-failure.ts';
import { TASK_NAME } from '../conf/values/role-name.ts';
import { isRecord } from '../platform/is-record.ts';
import { parseJson } from '../platform/json-value.ts';

// This module reads the files that each ApplicationMaster attempt writes to the history: events-<attempt>.jsonl and
// metrics-<attempt>.jsonl.

export interface HistoryFile {
  readonly name: string;
  readonly attempt: number;
}

export function historyFileName(kind: 'events' | 'metrics', attempt: number): string {
  return `${kind}-${attempt}.jsonl`;
}

/** Selects one kind of file from a history's file names, and orders the result by attempt. */
export function historyFiles(names: readonly string[], kind: 'events' | 'metrics'): HistoryFile[] {
  return names
    .flatMap((name) => {
      const [, of, attempt] = /^(\w+)-([1-9]\d{0,5})\.jsonl$/.exec(name) ?? [];
      return of === kind ? [{ name, attempt: Number(attempt) }] : [];
    })
    .sort((a, b) => a.attempt - b.attempt);
}

/** Parses the lines in an event file. Skips lines that a crash has truncated. */
export function parseEntries(text: string): HistoryEntry[] {
  return text.split('\n').flatMap((line) => parseEntry(line) ?? []);
}

/** Parses one event and drops unknown fields. Returns null if the line is not a valid event. */
export function parseEntry(line: string): HistoryEntry | null {
  return checkedEntry(parseJson(line));
}

/** Validates one event and drops unknown fields. Returns null if the parsed JSON value is not a valid event. */
export function checkedEntry(value: unknown): HistoryEntry | null {
  // The cast is safe, because parsed JSON never contains undefined.
  return (entrySchema.safeParse(value).data as HistoryEntry | undefined) ?? null;
}

const entrySchema = z.object({
  /** An ApplicationMaster sends times in RFC 3339, and stores them in ms since the epoch. */
  at: z.union([z.number(), z.iso.datetime().transform((text) => Date.parse(text))]),
  type: z.string(),
  role: z.string().optional(),
  index: z.number().optional(),
  attempt: z.number().optional(),
  generation: z.number().optional(),
  containerId: z.string().optional(),
  node: z.string().optional(),
  exit: programEndSchema.optional(),
  failure: taskFailureSchema.optional(),
  program: z.enum(['idle', 'running', 'ended']).optional(),
  reason: z.string().optional(),
  state: z.enum(END_STATES).optional(),
  message: z.string().optional(),
});

export function parseSamples(text: string): UsageSample[] {
  return text.split('\n').flatMap((line) => parseSample(line) ?? []);
}

/**
 * Parses a line of metrics and drops unknown fields. Also drops entries with an invalid task name, because such a name can be arbitrarily
 * long.
 */
export function parseSample(line: string): UsageSample | null {
  const value = parseJson(line);
  if (!isRecord(value) || typeof value.at !== 'number' || !Array.isArray(value.tasks)) {
    return null;
  }
  return { at: value.at, tasks: value.tasks.map(taskSample).filter((task) => task !== null) };
}

function taskSample(value: unknown): TaskUsageSample | null {
  if (!isRecord(value) || typeof value.task !== 'string' || !TASK_NAME.test(value.task)) {
    return null;
  }
  const number = (key: string): number | null => (typeof value[key] === 'number' ? value[key] : null);
  return {
    task: value.task,
    step: number('step') ?? 0,
    memoryBytes: number('memoryBytes') ?? 0,
    cpuCores: number('cpuCores') ?? 0,
    gpuUtilization: number('gpuUtilization'),
    gpuMemoryBytes: number('gpuMemoryBytes'),
  };
}
