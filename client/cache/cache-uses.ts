import { isApplicationId } from '../../hadoop/rpc/application-id.ts';
import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { isLocalId } from '../files/local-layout.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { mayRun } from '../records/stored-status.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';

const AT_ONCE = 8;
/**
 * If YARN has no such application, the job counts as running until its job.json has this age (ms), because the client may still be
 * submitting it.
 */
const STARTING_MS = 3_600_000;
/** The maximum size of a job.json (bytes), as in records/job-record.ts. */
const LARGEST_JOB = 4 << 20;
const HASH = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;

/** A job that used a cache entry. */
export interface CacheUse {
  readonly applicationId: string;
  /** Empty if unknown. */
  readonly name: string;
  /** ms since the epoch. */
  readonly submittedAt: number;
}

/** The cache entries to which a job.json refers. */
export interface JobUses {
  readonly use: CacheUse;
  readonly hashes: ReadonlySet<string>;
  /** Whether the job.json is incomplete and may have contained more hashes. */
  readonly damaged: boolean;
}

/**
 * Extracts all references to the cache from a job.json of any version. Every hash in the text counts, because resources, data, commands and
 * environment variables may all refer to a cache entry.
 */
export function parseUses(text: string, applicationId: string, writtenAt: number): JobUses {
  const job = parseJson(text);
  if (!isRecord(job) || typeof job.submittedAt !== 'number' || !Array.isArray(job.resources)) {
    return { use: { applicationId, name: '', submittedAt: writtenAt }, hashes: new Set(text.match(HASH)), damaged: true };
  }
  const { submittedAt, job: described } = job;
  const name = isRecord(described) && typeof described.name === 'string' ? described.name : '';
  return { use: { applicationId, name, submittedAt }, hashes: new Set(JSON.stringify(job).match(HASH)), damaged: false };
}

interface ReadJob extends JobUses {
  /** The folder of the job.json. */
  readonly folder: string;
  readonly writtenAt: number;
}

/** Maps each entry of a user's cache to the jobs that use it or have used it. */
export class CacheUses {
  /** The reasons why uses may be missing, as sentences. With a gap, no entry counts as unused. */
  readonly gaps: string[] = [];
  readonly #store: HistoryStore;
  readonly #byHash = new Map<string, { last: CacheUse; readonly running: Set<string> }>();
  /** Jobs already read from the staging folder. */
  readonly #submitted = new Set<string>();

  private constructor(store: HistoryStore) {
    this.#store = store;
  }

  /** @throws TonyError HDFS_UNREACHABLE, ACCESS_DENIED */
  static async read(store: HistoryStore, now: number): Promise<CacheUses> {
    const uses = new CacheUses(store);
    // Read staged jobs before histories, because the staging folder of a job is removed when the job ends.
    const submitted = await uses.#readSubmitted();
    const { found: places, message } = await store.places(store.user);
    if (message !== '') {
      uses.gaps.push(message);
    }
    const past = await severalAtOnce(places, AT_ONCE, (place) => readPast(store.storage, place));
    const ended = new Set(past.filter(({ hasEnded }) => hasEnded).map(({ applicationId }) => applicationId));
    const open = past.flatMap(({ job, hasEnded }) => (job === null || hasEnded ? [] : [job]));
    const answers = await store.answers([...submitted, ...open].flatMap((job) => placeOf(job, store.user)));
    const isWhole = new Set(submitted.filter(({ damaged }) => !damaged).map(({ use }) => use.applicationId));
    for (const job of submitted) {
      const id = job.use.applicationId;
      const answer = answers.get(job.folder);
      // YARN reports whether a cluster job has ended. The end of a local job is recorded only in its files.
      const isUnknown = !ended.has(id) && (answer === 'forgotten' || isLocalId(id));
      uses.#add(job, mayRun(answer) || (isUnknown && now - job.writtenAt < STARTING_MS));
    }
    for (const { job } of past) {
      if (job === null) {
        continue;
      }
      const running = open.includes(job) && mayRun(answers.get(job.folder));
      // Containers start from the staged job.json. If it is intact, ignore a damaged copy in the history.
      uses.#add(job, running && !(job.damaged && isWhole.has(job.use.applicationId)));
    }
    return uses;
  }

  /** Adds the jobs submitted since `read`. */
  async readNew(): Promise<void> {
    for (const job of await this.#readSubmitted()) {
      this.#add(job, true);
    }
  }

  of(hash: string): { readonly usedBy: readonly string[]; readonly lastUse: CacheUse | null } {
    const found = this.#byHash.get(hash);
    return { usedBy: [...(found?.running ?? [])], lastUse: found?.last ?? null };
  }

  /**
   * Reads the staged jobs that are new since the last call. Skips folders without a job.json, because a submission checks its cache entries
   * again after it has written job.json; see submit-parts.ts.
   */
  async #readSubmitted(): Promise<ReadJob[]> {
    const { storage, root } = this.#store;
    const folders = (await storage.list(joinUri(root, 'jobs'))).filter(({ type, name }) => type === 'folder' && !this.#submitted.has(name));
    const jobs = await severalAtOnce(folders, AT_ONCE, ({ uri, name }) => readJob(storage, uri, name));
    const found = jobs.filter((job) => job !== null);
    for (const { use } of found) {
      this.#submitted.add(use.applicationId);
    }
    return found;
  }

  #add({ use, hashes, damaged, folder }: ReadJob, running: boolean): void {
    if (damaged && running) {
      this.gaps.push(`${joinUri(folder, 'job.json')} cannot be read, and its job may still be running.`);
    }
    for (const hash of hashes) {
      const known = this.#byHash.get(hash) ?? { last: use, running: new Set() };
      if (use.submittedAt > known.last.submittedAt) {
        known.last = use;
      }
      if (running) {
        known.running.add(use.applicationId);
      }
      this.#byHash.set(hash, known);
    }
  }
}

/** Returns an empty list for an invalid application ID. Such a job cannot be queried, and counts as running. */
function placeOf({ use, folder }: ReadJob, user: string): JobPlace[] {
  const { applicationId } = use;
  return isApplicationId(applicationId) || isLocalId(applicationId) ? [{ applicationId, user, folder }] : [];
}

async function readPast(
  storage: Storage,
  { applicationId, folder }: JobPlace,
): Promise<{ readonly applicationId: string; readonly hasEnded: boolean; readonly job: ReadJob | null }> {
  const [job, files] = await Promise.all([readJob(storage, folder, applicationId), storage.list(folder)]);
  return { applicationId, job, hasEnded: files.some(({ name, type }) => name === 'final.json' && type === 'file') };
}

/** Reads a job.json; null if the file does not exist. */
async function readJob(storage: Storage, folder: string, applicationId: string): Promise<ReadJob | null> {
  const uri = joinUri(folder, 'job.json');
  const entry = await storage.stat(uri);
  if (entry?.type !== 'file') {
    return null;
  }
  const { size, modifiedAt } = entry;
  try {
    const text = size > LARGEST_JOB ? '' : (await storage.read(uri)).toString();
    return { ...parseUses(text, applicationId, modifiedAt), folder, writtenAt: modifiedAt };
  } catch (error) {
    // The job's end has removed the file.
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return null;
    }
    throw error;
  }
}
