import type { HistoryEntry, JobStatus } from '../../conf/status/status.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { historyFiles, parseEntries } from '../../web/history-files.ts';
import type { JobPlace } from './job-place.ts';
import { LARGEST_JOB, MOST_NAMES, readPart } from './job-record.ts';
import { LARGEST_STATUS, parseFinalWithoutTasks, shortened } from './status-schema.ts';
import { courseOf, type JobCourse, type JobHead, type JobOutline } from './stored-status.ts';

/*
 * Reads the data that a list shows about a job. This is the final status or, without a final status, data from job.json and the newest
 * events. The folder listing determines how many bytes to read, and whether a file has changed since the last read.
 */

/** Limits for reading the newest event files: total size in bytes, and number of files. */
const NEWEST_EVENTS = 128 << 10;
const NEWEST_FILES = 4;
const LONGEST_TEXT = 1_024;

export interface OutlineFiles {
  readonly final: Entry | null;
  readonly job: Entry | null;
  readonly events: readonly Entry[];
  /** Newest attempt that has events, or 0 if there are no events. */
  readonly attempt: number;
  readonly areMore: boolean;
  /** Expected number of bytes to read. A damaged final.json requires more. */
  readonly bytes: number;
  /** String that changes whenever one of these files changes. */
  readonly stamp: string;
}

/** Selects the files that the job list needs, without reading them. */
export async function outlineFiles(storage: Storage, { folder }: Pick<JobPlace, 'folder'>): Promise<OutlineFiles> {
  const files = new Map(
    (await storage.list(folder, { most: MOST_NAMES })).flatMap((each) => (each.type === 'file' ? [[each.name, each]] : [])),
  );
  const named = (name: string, largest: number): Entry | null => {
    const entry = files.get(name);
    return entry === undefined || entry.size > largest ? null : entry;
  };
  const attempts = historyFiles([...files.keys()], 'events');
  const events = attempts.slice(-NEWEST_FILES).flatMap(({ name }) => files.get(name) ?? []);
  const [final, job] = [named('final.json', LARGEST_STATUS), named('job.json', LARGEST_JOB)];
  const looked = [final, job, ...events].map((entry) => entry && [entry.name, entry.size, entry.modifiedAt]);
  return {
    final,
    job,
    events,
    attempt: attempts.at(-1)?.attempt ?? 0,
    areMore: events.length < attempts.length,
    bytes: final === null ? sizeOf(job, events) : final.size,
    stamp: JSON.stringify([attempts.length, looked]),
  };
}

function sizeOf(job: Entry | null, events: readonly Entry[]): number {
  const size = events.reduce((sum, entry) => sum + entry.size, 0);
  return (job?.size ?? 0) + Math.min(NEWEST_EVENTS, size);
}

export interface ReadOutline {
  /** Final status of the job, or the available information if there is none. */
  readonly found: { readonly ended: JobStatus } | { readonly open: JobOutline };
  readonly bytes: number;
}

/**
 * Reads the selected files. Ignores missing and damaged files.
 * @throws TonyError if an existing file cannot be read, for example because access is denied
 */
export async function readOutline(storage: Storage, place: JobPlace, files: OutlineFiles): Promise<ReadOutline> {
  const { jobId, user } = place;
  const { job, events } = files;
  const final = await readFinal(storage, place, files.final);
  if (typeof final === 'object' && final !== null) {
    return { found: { ended: listed({ ...final, user }) }, bytes: files.final?.size ?? 0 };
  }
  const [head, course] = await Promise.all([
    job === null ? null : readPart(storage, job.uri, { length: job.size }, parseHead),
    readCourse(storage, files),
  ]);
  const open = { jobId, user, head, course, isDamaged: final === 'damaged' };
  return { found: { open }, bytes: (files.final?.size ?? 0) + sizeOf(job, events) };
}

function readFinal(storage: Storage, { jobId }: JobPlace, final: Entry | null) {
  if (final === null) {
    return null;
  }
  return readPart(storage, final.uri, { length: final.size }, (text) => parseFinalWithoutTasks(text, jobId));
}

async function readCourse(storage: Storage, { events, attempt, areMore }: OutlineFiles): Promise<JobCourse> {
  let left = NEWEST_EVENTS;
  let isCut = areMore;
  const parts: HistoryEntry[][] = [];
  for (const { uri, size } of events.toReversed()) {
    const length = Math.min(size, left);
    const offset = size - length;
    left -= length;
    isCut ||= offset > 0;
    if (length === 0) {
      continue;
    }
    const read = await readPart(storage, uri, { offset, length }, (text) =>
      parseEntries(offset > 0 ? text.slice(text.indexOf('\n') + 1) : text),
    );
    parts.unshift(read ?? []);
  }
  const course = courseOf(parts.flat());
  // If a job has more events than these limits allow, its programs have already started.
  return { ...course, isStarted: course.isStarted || isCut, masterAttempt: Math.max(course.masterAttempt, attempt) };
}

function parseHead(text: string): JobHead | null {
  const value = parseJson(text);
  if (!isRecord(value)) {
    return null;
  }
  const job = isRecord(value.job) ? value.job : {};
  const textOf = (given: unknown): string => (typeof given === 'string' ? shortened(given, LONGEST_TEXT) : '');
  return {
    name: textOf(job.name),
    queue: textOf(job.queue),
    submittedAt: typeof value.submittedAt === 'number' ? value.submittedAt : null,
    checkpointDir: textOf(value.checkpointDir),
    summaryDir: textOf(value.summaryDir),
  };
}

/** Clips long strings and removes the fields that the job list does not need, because their size is unbounded. */
export function listed(status: JobStatus): JobStatus {
  const { tensorboard, elastic } = status;
  return {
    ...status,
    message: shortened(status.message, 2 * LONGEST_TEXT),
    checkpointUri: shortened(status.checkpointUri, LONGEST_TEXT),
    summaryUri: shortened(status.summaryUri, LONGEST_TEXT),
    tensorboard: { ...tensorboard, message: shortened(tensorboard.message, LONGEST_TEXT) },
    elastic: elastic && { ...elastic, role: shortened(elastic.role, LONGEST_TEXT) },
    tasks: [],
    orphanedContainers: [],
    metrics: {},
    notices: [],
    failure: null,
  };
}
