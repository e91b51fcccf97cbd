import type { Application, Attempt } from '../../hadoop/yarn/resource-manager-answers.ts';
import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import type { Storage } from '../../storage/storage.ts';
import { checkedEntry } from '../../web/history-files.ts';
import type { EventPage } from '../../web/job-view.ts';
import { redacted } from '../../web/redaction.ts';
import type { JobPlace } from '../records/job-place.ts';
import { readConfiguration, readRecord } from '../records/job-record.ts';
import type { JobRecord } from '../records/stored-status.ts';

/** YARN's information about an application. */
export interface YarnFacts extends Application {
  /** Attempts of the ApplicationMaster, oldest first. */
  readonly attempts: readonly Attempt[];
}

/** Sources of information about a job beyond its state: its files, its ApplicationMaster and YARN. */
export interface JobRecords {
  readonly storage: Storage;
  /** The job's history folder; null if it does not exist yet, or belongs to another user and is not readable. */
  place(): Promise<JobPlace | null>;
  /** URI of the job's staging folder, which holds job.json and is deleted when the job ends. */
  staged(): string;
  /** The ApplicationMaster's answer to `GET /tony/api/<resource>`; null if it does not answer or refuses the request. */
  ask(resource: string): Promise<unknown>;
  /** YARN's information about the job; null for a local job. */
  yarn(): Promise<YarnFacts | null>;
  /** Where the container logs are: on HDFS once YARN has aggregated them, or in the folder of a local job; null if unknown. */
  logs(): Promise<string | null>;
}

/** Reads the job's history so far; null if there is no readable history. */
export async function readHistory({ storage, place }: JobRecords): Promise<{ readonly folder: string; readonly record: JobRecord } | null> {
  const found = await place();
  if (found === null) {
    return null;
  }
  const record = await unlessHidden(readRecord(storage, found, true));
  return record && { folder: found.folder, record };
}

/** The events of a running job after position `after`; null if the ApplicationMaster does not answer. */
export async function askEvents(records: JobRecords, after: number): Promise<EventPage | null> {
  const page = await records.ask(`events?after=${after}`);
  if (!isRecord(page) || !Array.isArray(page.entries) || typeof page.next !== 'number') {
    return null;
  }
  return { entries: page.entries.flatMap((entry) => checkedEntry(entry) ?? []), next: page.next };
}

/** The frozen job.json with likely secrets redacted; null if it is unavailable. */
export async function askConfiguration(records: JobRecords): Promise<unknown> {
  const said = await records.ask('configuration');
  // The ApplicationMaster also redacts its answer, but an older version may not.
  if (isRecord(said)) {
    return redacted(said);
  }
  const place = await records.place();
  const stored = place && (await unlessHidden(readConfiguration(records.storage, place)));
  if (isRecord(stored)) {
    return redacted(stored);
  }
  const staged = await unlessHidden(readConfiguration(records.storage, { folder: records.staged() }));
  return isRecord(staged) ? redacted(staged) : null;
}

/** Null if the file is not readable, for example because it belongs to another user. @throws TonyError HDFS_UNREACHABLE */
async function unlessHidden<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TonyError && error.exitCode !== 3) {
      return null;
    }
    throw error;
  }
}
