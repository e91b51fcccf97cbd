import type { YarnReport } from '../../conf/status/job-info.ts';
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

export interface JobRecords {
  readonly storage: Storage;
  /** User name that this client sends to the cluster. */
  readonly user: string;
  /** Returns the job's history folder, or null if the folder does not exist yet or cannot be read. */
  place(): Promise<JobPlace | null>;
  /** Returns the URI of the staging folder, which contains job.json. The folder is deleted when the job ends. */
  staged(): string;
  /**
   * Sends `GET /tony/api/v1/<resource>` to the ApplicationMaster. Returns null if the ApplicationMaster rejects the request or does not
   * respond.
   */
  ask(resource: string): Promise<unknown>;
  /** Requests the ResourceManager's report, including the ApplicationMaster's attempts. Null if it does not list the job. */
  yarn(): Promise<YarnReport | null>;
  /**
   * Returns the URI of the aggregated logs on HDFS, or of the folder that contains a local job's containers. Returns null if there is none.
   */
  logs(): Promise<string | null>;
  /**
   * Returns true if this process may read a URI that the job's files contain. Other users' jobs may refer only to file systems that the
   * Hadoop configuration names.
   */
  mayRead(uri: string): Promise<boolean>;
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

/**
 * Limits on one read of a running job's events, because the ApplicationMaster of another user's job may be any program. An ApplicationMaster
 * of tony-ts keeps at most 20,000 events of about 200 bytes for each attempt, and sends 5,000 events per page.
 */
const MOST_PAGES = 100;
const MOST_EVENT_BYTES = 32 << 20;
const MOST_EVENTS_MS = 60_000;

/**
 * Yields the pages with the events that follow position `after`, and null if the ApplicationMaster does not respond. Ends at the first empty
 * page, or when the pages exceed the limits. Returns true if the pages exceed the limits.
 */
export async function* eventPages(records: JobRecords, after: number): AsyncGenerator<EventPage | null, boolean> {
  const begun = performance.now();
  let bytes = 0;
  let next = after;
  for (let pages = 0; pages < MOST_PAGES && bytes <= MOST_EVENT_BYTES && performance.now() - begun < MOST_EVENTS_MS; pages++) {
    const page = await askEvents(records, next);
    if (page === null) {
      yield null;
      return false;
    }
    if (page.entries.length === 0) {
      return false;
    }
    bytes += JSON.stringify(page.entries).length;
    next = page.next;
    yield page;
  }
  return true;
}

/** Requests the events that follow position `after`. Returns null if the ApplicationMaster does not respond, or sends anything else. */
async function askEvents(records: JobRecords, after: number): Promise<EventPage | null> {
  const page = await records.ask(`events?after=${after}`);
  if (!isRecord(page) || !Array.isArray(page.entries) || !Number.isSafeInteger(page.next)) {
    return null;
  }
  const next = Number(page.next);
  const isGrowing = next > after || (page.entries.length === 0 && next === after);
  return isGrowing ? { entries: page.entries.flatMap((entry) => checkedEntry(entry) ?? []), next } : null;
}

/** Returns the frozen job.json without probable secrets, or null if the file is unavailable. */
export async function askConfiguration(records: JobRecords): Promise<unknown> {
  // Another program may run as the ApplicationMaster, and may not redact its response.
  const answer = await records.ask('configuration');
  if (isRecord(answer) && isRecord(answer.configuration)) {
    return redacted(answer.configuration);
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
