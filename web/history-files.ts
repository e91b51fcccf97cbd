import { isRecord } from '../conf/is-record.ts';
import type { HistoryEntry, UsageSample } from '../conf/status.ts';

// What each attempt of an ApplicationMaster leaves in the history as JSON lines: events-<attempt>.jsonl, metrics-<attempt>.jsonl.

export interface HistoryFile {
  readonly name: string;
  readonly attempt: number;
}

export function historyFileName(kind: 'events' | 'metrics', attempt: number): string {
  return `${kind}-${attempt}.jsonl`;
}

/** Of the names in a job's history, the files of a kind; the first attempt's first. */
export function historyFiles(names: readonly string[], kind: 'events' | 'metrics'): HistoryFile[] {
  return names
    .flatMap((name) => {
      const [, of, attempt] = /^(\w+)-([1-9]\d{0,5})\.jsonl$/.exec(name) ?? [];
      return of === kind ? [{ name, attempt: Number(attempt) }] : [];
    })
    .sort((a, b) => a.attempt - b.attempt);
}

/** The lines of a file of events; one that was cut short by a crash is passed over. */
export function parseEntries(text: string): HistoryEntry[] {
  return linesOf(text).filter(isEntry);
}

const TEXTS = ['role', 'containerId', 'node', 'detail'];
const NUMBERS = ['index', 'generation', 'attempt'];

/** An event as it is written down; what else stands where events do is none. */
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
  return linesOf(text).filter(
    (value): value is UsageSample =>
      isRecord(value) &&
      typeof value.at === 'number' &&
      Array.isArray(value.tasks) &&
      value.tasks.every((task) => isRecord(task) && typeof task.task === 'string'),
  );
}

function linesOf(text: string): unknown[] {
  return text.split('\n').map((line) => {
    try {
      return line === '' ? null : JSON.parse(line);
    } catch {
      return null;
    }
  });
}
