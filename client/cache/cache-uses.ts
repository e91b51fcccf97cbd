import { isApplicationId } from '../../hadoop/rpc/application-id.ts';
import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { isLocalId } from '../files/local-layout.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { mayRun } from '../records/stored-status.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';

const AT_ONCE = 8;
/**
 * A job unknown to YARN counts as running while its job.json is younger than this (ms), because its submission may not have reached the
 * ResourceManager yet.
 */
const STARTING_MS = 3_600_000;
/** The maximum size of a job.json, as in records/job-record.ts: no client writes a larger file. */
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

/** A job.json's references to the cache. */
export interface JobUses {
  readonly use: CacheUse;
  readonly hashes: ReadonlySet<string>;
  /** Whether the job.json is incomplete and may have contained more hashes. */
  readonly damaged: boolean;
}

/**
 * Extracts all references to the cache from a job.json of any version: every hash in its text, because resources, data, commands and
 * environment variables may all name a cache entry.
 */
export function parseUses(text: string, applicationId: string, writtenAt: number): JobUses {
  let job: unknown;
  try {
    job = JSON.parse(text);
  } catch {
    // Treats invalid JSON as damaged, like text that describes no job.
  }
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

/** Knows which jobs use or have used each entry of a user's cache. */
export class CacheUses {
  /** Sentences that say why uses may be missing. While there is a gap, no entry counts as unused. */
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
    // Reads staged jobs before histories: a job that ends in between moves from the staging folder to the histories.
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
      // YARN reports whether a cluster job has ended; for a local job, only its files show this.
      const isUnknown = !ended.has(id) && (answer === 'forgotten' || isLocalId(id));
      uses.#add(job, mayRun(answer) || (isUnknown && now - job.writtenAt < STARTING_MS));
    }
    for (const { job } of past) {
      if (job === null) {
        continue;
      }
      const running = open.includes(job) && mayRun(answers.get(job.folder));
      // A damaged job.json in the history does not matter if the staged copy is intact, because containers start from the staged copy.
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

  /** Skips folders without a job.json: the submission checks its cache entries again after it has written job.json; see submit-parts.ts. */
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

/** Returns an empty list for a job whose ID no cluster has assigned: it cannot be looked up, and counts as running. */
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

/** Null if there is no job.json. */
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
    // The job has ended in the meantime.
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return null;
    }
    throw error;
  }
}
