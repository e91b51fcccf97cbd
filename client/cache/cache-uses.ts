import { isApplicationId } from '../../hadoop/rpc/application-id.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { isLocalId } from '../files/local-layout.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { mayRun } from '../records/stored-status.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';

const AT_ONCE = 8;
/**
 * A job without a YARN application counts as running while its job.json is younger than this (ms), because the client may still be
 * submitting the job.
 */
const STARTING_MS = 3_600_000;
/** Maximum size of job.json in bytes, as in records/job-record.ts. */
const LARGEST_JOB = 4 << 20;

export interface CacheUse {
  readonly id: string;
  /** Job name, or '' if it is unknown. */
  readonly name: string;
  /** Submission time, in ms since the epoch. */
  readonly createdAt: number;
}

export interface JobUses {
  readonly use: CacheUse;
  readonly hashes: ReadonlySet<string>;
  /** Whether job.json is damaged. If so, the job's uses of cache entries are unknown. */
  readonly damaged: boolean;
}

/** Returns the cache entries that a job.json lists. */
export function parseUses(text: string, jobId: string, writtenAt: number): JobUses {
  const job = parseJson(text);
  if (!isRecord(job) || typeof job.submittedAt !== 'number' || !isTexts(job.cacheEntries)) {
    return { use: { id: jobId, name: '', createdAt: writtenAt }, hashes: new Set(), damaged: true };
  }
  const { submittedAt, cacheEntries, job: described } = job;
  const name = isRecord(described) && typeof described.name === 'string' ? described.name : '';
  return { use: { id: jobId, name, createdAt: submittedAt }, hashes: new Set(cacheEntries), damaged: false };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

interface ReadJob extends JobUses {
  /** Folder that contains job.json. */
  readonly folder: string;
  readonly writtenAt: number;
}

/** Finds the jobs that use or have used each entry in a user's cache. */
export class CacheUses {
  /** Reasons why the list of uses may be incomplete. Any such reason stops a prune. */
  readonly gaps: string[] = [];
  readonly #store: HistoryStore;
  readonly #byHash = new Map<string, { last: CacheUse; readonly running: Set<string> }>();
  /** Job IDs of the staged jobs whose job.json has already been read. */
  readonly #submitted = new Set<string>();

  private constructor(store: HistoryStore) {
    this.#store = store;
  }

  static async read(store: HistoryStore, now: number): Promise<CacheUses> {
    const uses = new CacheUses(store);
    // Read staged jobs before histories. If a job ends between the two reads, its staging folder disappears, but its history remains.
    const submitted = await uses.#readSubmitted();
    const { found: places, message } = await store.places(store.user);
    if (message !== '') {
      uses.gaps.push(message);
    }
    const past = await severalAtOnce(places, AT_ONCE, (place) => readPast(store.storage, place));
    const ended = new Set(past.filter(({ hasEnded }) => hasEnded).map(({ jobId }) => jobId));
    const open = past.flatMap(({ job, hasEnded }) => (job === null || hasEnded ? [] : [job]));
    const answers = await store.answers([...submitted, ...open].flatMap((job) => placeOf(job, store.user)));
    const isWhole = new Set(submitted.filter(({ damaged }) => !damaged).map(({ use }) => use.id));
    for (const job of submitted) {
      const id = job.use.id;
      const answer = answers.get(job.folder);
      // YARN reports whether a job on a cluster has ended. For a local job, only its files show whether it has ended.
      const isUnknown = !ended.has(id) && (answer === 'forgotten' || isLocalId(id));
      uses.#add(job, mayRun(answer) || (isUnknown && now - job.writtenAt < STARTING_MS));
    }
    for (const { job } of past) {
      if (job === null) {
        continue;
      }
      const running = open.includes(job) && mayRun(answers.get(job.folder));
      // Containers start from the staged job.json, so a damaged copy in the history does not matter if the staged file is intact.
      uses.#add(job, running && !(job.damaged && isWhole.has(job.use.id)));
    }
    return uses;
  }

  /** Reads the jobs that were submitted since the last read, and adds the entries that these jobs use. */
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
   * Reads the staged jobs that earlier calls have not read. Skips folders without a job.json, because a submission checks its cache entries
   * after it has written job.json. See parts.ts.
   */
  async #readSubmitted(): Promise<ReadJob[]> {
    const { storage, root } = this.#store;
    const folders = (await storage.list(joinUri(root, 'jobs'))).filter(({ type, name }) => type === 'folder' && !this.#submitted.has(name));
    const jobs = await severalAtOnce(folders, AT_ONCE, ({ uri, name }) => readJob(storage, uri, name));
    const found = jobs.filter((job) => job !== null);
    for (const { use } of found) {
      this.#submitted.add(use.id);
    }
    return found;
  }

  #add({ use, hashes, damaged, folder }: ReadJob, running: boolean): void {
    if (damaged && running) {
      this.gaps.push(`${joinUri(folder, 'job.json')} cannot be read, and its job may still be running.`);
    }
    for (const hash of hashes) {
      const known = this.#byHash.get(hash) ?? { last: use, running: new Set() };
      if (use.createdAt > known.last.createdAt) {
        known.last = use;
      }
      if (running) {
        known.running.add(use.id);
      }
      this.#byHash.set(hash, known);
    }
  }
}

/** Returns [] for an invalid job ID. The caller then assumes that the job is running. */
function placeOf({ use, folder }: ReadJob, user: string): JobPlace[] {
  const { id } = use;
  return isApplicationId(id) || isLocalId(id) ? [{ jobId: id, user, folder }] : [];
}

async function readPast(
  storage: Storage,
  { jobId, folder }: JobPlace,
): Promise<{ readonly jobId: string; readonly hasEnded: boolean; readonly job: ReadJob | null }> {
  const [job, files] = await Promise.all([readJob(storage, folder, jobId), storage.list(folder)]);
  return { jobId, job, hasEnded: files.some(({ name, type }) => name === 'final.json' && type === 'file') };
}

async function readJob(storage: Storage, folder: string, jobId: string): Promise<ReadJob | null> {
  const uri = joinUri(folder, 'job.json');
  const entry = await storage.stat(uri);
  if (entry?.type !== 'file') {
    return null;
  }
  const { size, modifiedAt } = entry;
  const bytes = size > LARGEST_JOB ? '' : await readIfStored(storage, uri);
  // A job that has ended removes its staging folder.
  return bytes === null ? null : { ...parseUses(bytes.toString(), jobId, modifiedAt), folder, writtenAt: modifiedAt };
}
