import type { HistoryEntry, TaskUsageSample, UsageSample } from '../conf/status.ts';
import { TASK_NAME } from '../conf/values/role-name.ts';
import { isRecord } from '../platform/is-record.ts';

// The JSON lines files that each attempt of an ApplicationMaster writes to the history: events-<attempt>.jsonl, metrics-<attempt>.jsonl.

export interface HistoryFile {
  readonly name: string;
  readonly attempt: number;
}

export function historyFileName(kind: 'events' | 'metrics', attempt: number): string {
  return `${kind}-${attempt}.jsonl`;
}

/** The files of one kind among the names in a job's history, ordered by attempt. */
export function historyFiles(names: readonly string[], kind: 'events' | 'metrics'): HistoryFile[] {
  return names
    .flatMap((name) => {
      const [, of, attempt] = /^(\w+)-([1-9]\d{0,5})\.jsonl$/.exec(name) ?? [];
      return of === kind ? [{ name, attempt: Number(attempt) }] : [];
    })
    .sort((a, b) => a.attempt - b.attempt);
}

/** Parses the lines of an event file; skips lines that a crash has truncated. */
export function parseEntries(text: string): HistoryEntry[] {
  return text.split('\n').flatMap((line) => parseEntry(line) ?? []);
}

/** Parses one event and drops unknown fields; null if the line is damaged or no event. */
export function parseEntry(line: string): HistoryEntry | null {
  const value = parsed(line);
  if (!isEntry(value)) return null;
  const { at, event } = value;
  const rest = KEYS.flatMap((key) => (value[key] === undefined ? [] : [[key, value[key]] as const]));
  return { at, event, ...Object.fromEntries(rest) };
}

const TEXTS = ['role', 'containerId', 'node', 'detail'] as const;
const NUMBERS = ['index', 'generation', 'attempt'] as const;
const KEYS = [...TEXTS, ...NUMBERS];

/** Whether a value has the form of a stored event. */
export function isEntry(value: unknown): value is HistoryEntry {
  return (
    isRecord(value) &&
    typeof value.event === 'string' &&
    typeof value.at === 'number' &&
    TEXTS.every((key) => value[key] === undefined || typeof value[key] === 'string') &&
    NUMBERS.every((key) => value[key] === undefined || typeof value[key] === 'number')
  );
}

export function parseSamples(text: string): UsageSample[] {
  return text.split('\n').flatMap((line) => parseSample(line) ?? []);
}

/**
 * Parses a line of metrics as parseEntry does. Drops entries without a valid task name, because any other text could fill the whole line.
 */
export function parseSample(line: string): UsageSample | null {
  const value = parsed(line);
  if (!isRecord(value) || typeof value.at !== 'number' || !Array.isArray(value.tasks)) return null;
  return { at: value.at, tasks: value.tasks.map(taskSample).filter((task) => task !== null) };
}

function taskSample(value: unknown): TaskUsageSample | null {
  if (!isRecord(value) || typeof value.task !== 'string' || !TASK_NAME.test(value.task)) return null;
  const number = (key: string): number | null => (typeof value[key] === 'number' ? value[key] : null);
  return {
    task: value.task,
    step: number('step') ?? 0,
    rssBytes: number('rssBytes') ?? 0,
    cpuCores: number('cpuCores') ?? 0,
    gpuUtilization: number('gpuUtilization'),
    gpuMemoryBytes: number('gpuMemoryBytes'),
  };
}

function parsed(line: string): unknown {
  try {
    return line === '' ? null : JSON.parse(line);
  } catch {
    return null;
  }
}
