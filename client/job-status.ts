import type { HistoryEntry, JobStatus } from '../conf/status.ts';

/** The status that an ApplicationMaster answered or left in final.json; null when the text is none (a proxy's page, another job's). */
export function parseJobStatus(text: string, applicationId: string): JobStatus | null {
  const value = parse(text);
  if (!isRecord(value) || value.applicationId !== applicationId) return null;
  const whole =
    typeof value.state === 'string' &&
    typeof value.message === 'string' &&
    typeof value.generations === 'number' &&
    isRecord(value.metrics) &&
    Array.isArray(value.notices) &&
    Array.isArray(value.tasks) &&
    value.tasks.every((task) => isRecord(task) && typeof task.role === 'string' && typeof task.state === 'string');
  return whole ? (value as unknown as JobStatus) : null;
}

/** Of the names in a job's history folder, the files of events: one for each attempt of the ApplicationMaster, the first attempt's first. */
export function eventFiles(names: readonly string[]): string[] {
  const attempt = (name: string): number => Number(/^events-(\d+)\.jsonl$/.exec(name)?.[1] ?? Number.NaN);
  return names.filter((name) => !Number.isNaN(attempt(name))).sort((a, b) => attempt(a) - attempt(b));
}

const TEXTS = ['role', 'containerId', 'node', 'detail'] as const;
const NUMBERS = ['index', 'generation'] as const;

/** The history's lines; one that was cut short by a crash, or is none of ours, is passed over. */
export function parseHistory(text: string): HistoryEntry[] {
  return text.split('\n').flatMap((line) => {
    const value = parse(line);
    return isEntry(value) ? [value] : [];
  });
}

function isEntry(value: unknown): value is HistoryEntry {
  return (
    isRecord(value) &&
    typeof value.event === 'string' &&
    typeof value.at === 'number' &&
    TEXTS.every((key) => value[key] === undefined || typeof value[key] === 'string') &&
    NUMBERS.every((key) => value[key] === undefined || typeof value[key] === 'number')
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
