import { TonyError } from '../conf/errors.ts';
import { isRecord } from '../conf/is-record.ts';
import type { Application, Attempt } from '../hadoop/resource-manager-answers.ts';
import type { Storage } from '../storage/storage.ts';
import { isEntry } from '../web/history-files.ts';
import type { EventPage } from '../web/job-view.ts';
import { redacted } from '../web/redaction.ts';
import type { JobPlace } from './history/history-store.ts';
import { readConfiguration, readRecord } from './history/job-record.ts';
import type { JobRecord } from './history/stored-status.ts';

/** What YARN says of an application. */
export interface YarnFacts extends Application {
  /** Of its ApplicationMaster, the first one first. */
  readonly attempts: readonly Attempt[];
}

/** Where more is to be learnt of a job than its state: what it leaves, what it answers, what YARN says. */
export interface JobRecords {
  readonly storage: Storage;
  /** The folder of its history; null when nobody has written one yet, or it is another user's and not to be read. */
  place(): Promise<JobPlace | null>;
  /** URI of the folder with job.json that was staged for it; it goes when the job ends. */
  staged(): string;
  /** What its ApplicationMaster answers to `GET /tony/api/<resource>`; null when nobody answers, or refuses to. */
  ask(resource: string): Promise<unknown>;
  /** Null for a job of this machine. */
  yarn(): Promise<YarnFacts | null>;
  /** Where the logs of its containers lie once they are collected; on this machine at once. */
  logs(): Promise<string | null>;
}

/** What a job has left behind so far; null when there is nothing that may be read. */
export async function readHistory({ storage, place }: JobRecords): Promise<{ readonly folder: string; readonly record: JobRecord } | null> {
  const found = await place();
  if (found === null) return null;
  const record = await unlessHidden(readRecord(storage, found, true));
  return record && { folder: found.folder, record };
}

/** The events behind `after`, of a job that runs; null when nobody answers. */
export async function askEvents(records: JobRecords, after: number): Promise<EventPage | null> {
  const page = await records.ask(`events?after=${after}`);
  if (!isRecord(page) || !Array.isArray(page.entries) || typeof page.next !== 'number') return null;
  return { entries: page.entries.filter(isEntry), next: page.next };
}

/** job.json as it was frozen, with what looks like a secret hidden; null when it is not to be had. */
export async function askConfiguration(records: JobRecords): Promise<unknown> {
  const said = await records.ask('configuration');
  // Hidden there already; what answers may be of another version.
  if (isRecord(said)) return redacted(said);
  const place = await records.place();
  const stored = place && (await unlessHidden(readConfiguration(records.storage, place)));
  if (isRecord(stored)) return redacted(stored);
  const staged = await unlessHidden(readConfiguration(records.storage, { folder: records.staged() }));
  return isRecord(staged) ? redacted(staged) : null;
}

/** Null for what is there but another user's. @throws TonyError HDFS_UNREACHABLE */
async function unlessHidden<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TonyError && error.exitCode !== 3) return null;
    throw error;
  }
}
