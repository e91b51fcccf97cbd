import { messageOf, TonyError } from '../../conf/errors.ts';
import { parseFrozenJob } from '../../conf/frozen-job.ts';
import type { FrozenJob } from '../../conf/job.ts';
import type { UsageSample } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { historyFiles, parseEntries, parseSamples } from '../../web/history-files.ts';
import type { JobPlace } from './history-store.ts';
import { type JobRecord, parseFinal } from './stored-status.ts';

/** Files larger than this are none that the ApplicationMaster writes. */
const MAXIMUM_FILE_BYTES = 256 * 1024 * 1024;

/**
 * Reads what a job has left. Files that are missing or damaged say nothing; `withEvents`: the events too where final.json says it all.
 *
 * @throws TonyError ACCESS_DENIED, HDFS_UNREACHABLE
 */
export async function readRecord(storage: Storage, place: JobPlace, withEvents: boolean): Promise<JobRecord> {
  const { applicationId, user, folder } = place;
  const final = await readText(storage, joinUri(folder, 'final.json'));
  const whole = withEvents || parseFinal(final, applicationId) === null;
  const [frozen, entries] = await Promise.all([
    whole ? readFrozen(storage, place) : null,
    whole ? numbered(storage, folder, 'events').then(parseEntries) : [],
  ]);
  return { applicationId, user, frozen, final, entries };
}

/** Null when there is none that can be read. */
export async function readFrozen(storage: Storage, { folder }: JobPlace): Promise<FrozenJob | null> {
  const text = await readText(storage, joinUri(folder, 'job.json'));
  try {
    return text === '' ? null : parseFrozenJob(text);
  } catch {
    return null;
  }
}

/** job.json as it is, of whatever version; undefined when it is missing or damaged. */
export async function readConfiguration(storage: Storage, { folder }: Pick<JobPlace, 'folder'>): Promise<unknown> {
  try {
    return JSON.parse(await readText(storage, joinUri(folder, 'job.json')));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** What the tasks used, sample by sample. */
export async function readSamples(storage: Storage, { folder }: JobPlace): Promise<UsageSample[]> {
  return parseSamples(await numbered(storage, folder, 'metrics'));
}

async function numbered(storage: Storage, folder: string, kind: 'events' | 'metrics'): Promise<string> {
  const names = (await storage.list(folder)).map(({ name }) => name);
  const texts = await Promise.all(historyFiles(names, kind).map(({ name }) => readText(storage, joinUri(folder, name))));
  return texts.join('\n');
}

async function readText(storage: Storage, uri: string): Promise<string> {
  try {
    const entry = await storage.stat(uri);
    if (entry === null || entry.type !== 'file' || entry.size > MAXIMUM_FILE_BYTES) return '';
    return (await storage.read(uri)).toString();
  } catch (error) {
    // What went away in between is missing; what is not ours to read, or not to be reached, is another matter.
    if (error instanceof TonyError && error.code === 'NOT_FOUND') return '';
    if (error instanceof TonyError) throw error;
    throw new TonyError('STORAGE_REFUSED', `${uri} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}
