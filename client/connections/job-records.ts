import type { Application, Attempt } from '../../hadoop/yarn/resource-manager-answers.ts';
import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import type { Storage } from '../../storage/storage.ts';
import { checkedEntry } from '../../web/history-files.ts';
import type { EventPage } from '../../web/job-view.ts';
import { redacted } from '../../web/redaction.ts';
import { isAway } from '../cluster/outage-tolerance.ts';
import type { JobPlace } from '../records/job-place.ts';
import { readConfiguration, readRecord } from '../records/job-record.ts';
import type { JobRecord } from '../records/stored-status.ts';

export interface YarnFacts extends Application {
  /** ApplicationMaster attempts, oldest first. */
  readonly attempts: readonly Attempt[];
}

export interface JobRecords {
  readonly storage: Storage;
  /** User name that this client sends to the cluster. */
  readonly user: string;
  /** Returns the job's history folder, or null if the folder does not exist yet or cannot be read. */
  place(): Promise<JobPlace | null>;
  /** Returns the URI of the staging folder, which contains job.json. The folder is deleted when the job ends. */
  staged(): string;
  /**
   * Sends `GET /tony/api/<resource>` to the ApplicationMaster. Returns null if the ApplicationMaster rejects the request or does not
   * respond.
   */
  ask(resource: string): Promise<unknown>;
  yarn(): Promise<YarnFacts | null>;
  /**
   * Returns the URI of the aggregated logs on HDFS, or of the folder that contains a local job's containers. Returns null if there is none.
   */
  logs(): Promise<string | null>;
}

/** Reads the job's history, or returns null if there is none or it cannot be read. */
export async function readHistory({ storage, place }: JobRecords): Promise<{ readonly folder: string; readonly record: JobRecord } | null> {
  const found = await place();
  if (found === null) {
    return null;
  }
  const record = await ifReadable(readRecord(storage, found, true));
  return record && { folder: found.folder, record };
}

/** Requests the events that follow position `after`. Returns null if the ApplicationMaster does not respond. */
export async function askEvents(records: JobRecords, after: number): Promise<EventPage | null> {
  const page = await records.ask(`events?after=${after}`);
  if (!isRecord(page) || !Array.isArray(page.entries) || typeof page.next !== 'number') {
    return null;
  }
  return { entries: page.entries.flatMap((entry) => checkedEntry(entry) ?? []), next: page.next };
}

/** Returns the frozen job.json without probable secrets, or null if the file is unavailable. */
export async function askConfiguration(records: JobRecords): Promise<unknown> {
  // An older version of the ApplicationMaster may not have redacted its response.
  const answer = await records.ask('configuration');
  if (isRecord(answer)) {
    return redacted(answer);
  }
  for (const folder of [await records.place(), { folder: records.staged() }]) {
    const stored = folder && (await ifReadable(readConfiguration(records.storage, folder)));
    if (isRecord(stored)) {
      return redacted(stored);
    }
  }
  return null;
}

/**
 * Returns the result of `reading`, or null if a file cannot be read, for example because it belongs to another user.
 * @throws TonyError HDFS_UNREACHABLE
 */
export async function ifReadable<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TonyError && !isAway(error)) {
      return null;
    }
    throw error;
  }
}

/** Returns the result of `reading`, or null if a file cannot be read or the storage is unreachable. */
export async function ifAvailable<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TonyError) {
      return null;
    }
    throw error;
  }
}
