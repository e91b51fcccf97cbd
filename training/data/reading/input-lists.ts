import { createHash } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import * as z from 'zod';
import { openStorage } from '../../../contract/process/open-storage.ts';
import { readTask } from '../../../contract/process/task.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { readIfStored } from '../../../storage/read-if-stored.ts';
import type { Storage } from '../../../storage/storage.ts';
import { joinUri } from '../../../storage/uri.ts';
import type { ComparedTimes } from './file-checks.ts';
import { type DataFile, otherFiles, rememberLiterals } from './file-set.ts';

/** One list of files for each column of a source. Most sources have one column. */
export type Columns = readonly (readonly DataFile[])[];

/** The folder, next to the checkpoints, in which a job keeps its lists of files. */
const FOLDER = 'inputs';

/** Where the processes of a job agree on lists. The first process that writes a list decides for all others. */
export interface ListKeeper {
  readonly storage: Pick<Storage, 'read' | 'write'>;
  /** URI of a folder. */
  readonly folder: string;
  /** Separates the lists of different jobs that use the same folder. */
  readonly job: string;
}

/** The names of lists by the keys of their sources. Checkpoints contain these names. */
export const listNames = z.record(z.string(), z.string());
export type ListNames = Readonly<z.infer<typeof listNames>>;

interface TakenList {
  readonly columns: Columns;
  /** True if this process listed the files just now, so there is no reason to list them again. */
  readonly isNew: boolean;
}

interface Memory {
  readonly lists: Map<string, Promise<TakenList>>;
  /** The name of each source's newest list. Lists of earlier epochs are dropped from memory. */
  readonly newest: Map<string, string>;
  /** Every file in a list, by URI. */
  readonly files: Map<string, DataFile>;
  /** The files that users have been told about. */
  readonly told: Set<string>;
}

/**
 * The lists of input files that all readers of a job share. Each list is taken once, and then kept in a file in the folder of the
 * checkpoints, so it is the same on every rank, in every epoch, and after every restart. Without a keeper, the lists belong to this object.
 */
export class InputLists implements ComparedTimes {
  static #ofJob: InputLists | null = null;

  readonly #keeper: ListKeeper | null;
  readonly #memory: Memory;
  readonly #phase: string;
  readonly #pinned: ListNames;
  readonly #used = new Map<string, readonly [key: string, name: string]>();
  /** Files that this reader named one by one. No other reader uses these lists. */
  readonly #own = new Map<string, Columns>();
  readonly comparesLocalTimes: boolean;

  private constructor(keeper: ListKeeper | null, comparesLocalTimes: boolean, memory: Memory, phase: string, pinned: ListNames) {
    this.#keeper = keeper;
    this.comparesLocalTimes = comparesLocalTimes;
    this.#memory = memory;
    this.#phase = phase;
    this.#pinned = pinned;
  }

  static create(keeper: ListKeeper | null, { comparesLocalTimes }: ComparedTimes = { comparesLocalTimes: true }): InputLists {
    return new InputLists(keeper, comparesLocalTimes, emptyMemory(), '', {});
  }

  /** Returns the lists of the job that this process belongs to. For a standalone program, returns new lists. */
  static ofJob(): InputLists {
    const task = readTask();
    if (task === null) {
      return InputLists.create(null);
    }
    const keeper = { storage: storageOnDemand(), folder: listFolder(task.checkpoint.dir), job: task.jobId };
    InputLists.#ofJob ??= InputLists.create(keeper, { comparesLocalTimes: task.hadoop === null });
    return InputLists.#ofJob;
  }

  /**
   * Returns the same lists for one reading of datasets, for example one call of `fit`.
   * @param phase distinguishes the epochs of several calls. Default: the phase of these lists.
   * @param pinned the names of the lists in a checkpoint, which may come from an earlier job
   */
  view({ phase = this.#phase, pinned = {} }: { readonly phase?: string; readonly pinned?: ListNames }): InputLists {
    const memory = this.#keeper === null ? emptyMemory() : this.#memory;
    return new InputLists(this.#keeper, this.comparesLocalTimes, memory, phase, { ...this.#pinned, ...pinned });
  }

  /** Returns the names of the lists that were used, for checkpoints. */
  get names(): ListNames {
    return { ...this.#pinned, ...Object.fromEntries(this.#used.values()) };
  }

  /** Returns a listed file, or undefined if no list contains it. */
  file(uri: string): DataFile | undefined {
    return this.#memory.files.get(uri);
  }

  /** Returns true the first time that it is called with the file. */
  isNews(uri: string): boolean {
    const { told } = this.#memory;
    return told.size < told.add(uri).size;
  }

  /**
   * Returns the agreed list of a source.
   * @param source everything that the source's list depends on
   * @param epoch the epoch to which the list belongs, or null for the list of the whole job
   * @param list lists the files. Called only if no process has taken the list yet.
   * @throws TonyError DATA_INVALID if the list in a checkpoint no longer exists, or an error of `list`
   */
  async take(source: readonly string[], epoch: number | null, list: () => Promise<Columns>): Promise<TakenList> {
    const base = keyOf(source);
    const key = base + (epoch === null ? '' : `-${keyOf([this.#phase])}-${epoch}`);
    const pinned = this.#pinned[key];
    const name = pinned ?? `${this.#keeper?.job ?? ''}/${key}`;
    const { lists, newest } = this.#memory;
    const earlier = newest.get(base);
    if (epoch !== null && earlier !== undefined && earlier !== name) {
      lists.delete(earlier);
    }
    newest.set(base, name);
    const known = lists.get(name);
    const taking = known ?? this.#take(name, pinned === undefined ? list : null);
    lists.set(name, taking);
    try {
      const taken = await taking;
      if (this.#keeper !== null) {
        this.#used.set(base, [key, name]);
      }
      return known === undefined ? taken : { ...taken, isNew: false };
    } catch (error) {
      lists.delete(name);
      throw error;
    }
  }

  /** Returns the list of files that a single reader has named one by one, so that there is nothing to agree on. */
  async takeOwn(source: readonly string[], list: () => Promise<Columns>): Promise<Columns> {
    const key = keyOf(source);
    const own = this.#own.get(key) ?? (await list());
    this.#own.set(key, own);
    return own;
  }

  /** @param list null if the list must exist */
  async #take(name: string, list: (() => Promise<Columns>) | null): Promise<TakenList> {
    const stored = await this.#stored(name);
    if (stored !== null) {
      return this.#remembered({ columns: stored, isNew: false });
    }
    if (list === null) {
      throw otherFiles();
    }
    const columns = await list();
    const keeper = this.#keeper;
    if (keeper === null || (await keeper.storage.write(uriOf(keeper, name), encodeColumns(columns), { ifAbsent: true }))) {
      return this.#remembered({ columns, isNew: true });
    }
    // Another process has been faster.
    return this.#remembered({ columns: (await this.#stored(name)) ?? columns, isNew: false });
  }

  async #stored(name: string): Promise<Columns | null> {
    const keeper = this.#keeper;
    if (keeper === null) {
      return null;
    }
    const uri = uriOf(keeper, name);
    const bytes = await readIfStored(keeper.storage, uri);
    return bytes === null ? null : decodeColumns(bytes, uri);
  }

  #remembered(taken: TakenList): TakenList {
    for (const file of taken.columns.flat()) {
      this.#memory.files.set(file.uri, file);
    }
    rememberLiterals(taken.columns.flat());
    return taken;
  }
}

function emptyMemory(): Memory {
  return { lists: new Map(), newest: new Map(), files: new Map(), told: new Set() };
}

export function listFolder(checkpointDir: string): string {
  return joinUri(checkpointDir, FOLDER);
}

function uriOf({ folder }: ListKeeper, name: string): string {
  return joinUri(folder, `${name}.json.gz`);
}

function keyOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

/** The job's storage, opened for each operation, because a process rarely reads or writes a list. */
function storageOnDemand(): ListKeeper['storage'] {
  const using = async <T>(action: (storage: Storage) => Promise<T>): Promise<T> => {
    const storage = await openStorage();
    try {
      return await action(storage);
    } finally {
      storage.close();
    }
  };
  return {
    read: (uri) => using((storage) => storage.read(uri)),
    write: (uri, data, options) => using((storage) => storage.write(uri, data, options)),
  };
}

const file = z.tuple([z.string(), z.number(), z.number(), z.string().nullable()]);
const storedList = z.object({ version: z.literal(1), columns: z.array(z.array(file)) });

function encodeColumns(columns: Columns): Buffer {
  const stored: z.infer<typeof storedList> = {
    version: 1,
    columns: columns.map((files) => files.map(({ uri, size, modifiedAt, etag }) => [uri, size, modifiedAt, etag ?? null])),
  };
  return gzipSync(JSON.stringify(stored));
}

function decodeColumns(bytes: Buffer, uri: string): Columns {
  try {
    const { columns } = storedList.parse(JSON.parse(gunzipSync(bytes).toString('utf8')));
    return columns.map((files) =>
      files.map(([address, size, modifiedAt, etag]) => ({ uri: address, size, modifiedAt, ...(etag !== null && { etag }) })),
    );
  } catch (error) {
    throw new TonyError('DATA_INVALID', `${uri}, the job's list of a dataset's files, cannot be read: ${messageOf(error)}`, {
      hint: 'Start a new job with another checkpoint folder.',
    });
  }
}
