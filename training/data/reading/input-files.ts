import { TonyError } from '../../../platform/errors.ts';
import { isStorageUnreachable } from '../../../storage/storage-unreachable.ts';
import { changedFile, hasChanged, removedFile } from './file-checks.ts';
import { type DataFile, type Files, listFiles, namesOf } from './file-set.ts';
import { type Columns, InputLists } from './input-lists.ts';
import type { ReadContext } from './read-context.ts';

/** When a source lists its files. */
export type Refresh = 'never' | 'epoch';

export type ListingContext = Pick<ReadContext, 'storage'> & Partial<Pick<ReadContext, 'lists' | 'share' | 'split' | 'passes' | 'onNotice'>>;

export type FileLister = (context: ListingContext) => Promise<readonly DataFile[]>;

/**
 * The files of a source. All readers of a job use the same list, which is taken once, or once for each epoch. Files that appear later
 * belong to no epoch, or to the next one. A file of the list that changes or disappears is an error.
 */
export class InputFiles {
  readonly #columns: readonly Files[];
  readonly #refresh: Refresh;
  readonly #told = new Set<string>();

  constructor(columns: readonly Files[], refresh: Refresh = 'never') {
    this.#columns = columns;
    this.#refresh = refresh;
  }

  /** @throws TonyError NOT_FOUND if a pattern matches no file or a listed file was removed, DATA_INVALID if a listed file has changed */
  readonly list: FileLister = async (context) => {
    const lists = context.lists ?? InputLists.ofJob();
    const names = this.#columns.map(namesOf);
    const known = names.map((column) => column.map(({ literalUri }) => (literalUri === null ? undefined : lists.file(literalUri))));
    if (known.flat().every((file) => file !== undefined)) {
      return joinColumns(known as DataFile[][]);
    }
    const source = names.map((column) => JSON.stringify(column.map(({ id }) => id)));
    const epoch = this.#epochOf(context);
    if (context.split === undefined && (context.share?.count ?? 1) === 1 && names.flat().every(({ literalUri }) => literalUri !== null)) {
      const columns = await lists.takeOwn(source, () => this.#listNow(context));
      if (columns.every((column, index) => column.every(({ uri }) => names[index]?.some(({ literalUri }) => literalUri === uri)))) {
        return joinColumns(columns);
      }
    }
    const { columns, isNew } = await lists.take(source, epoch, async () => {
      const listed = await this.#listNow(context);
      joinColumns(listed);
      return listed;
    });
    if (!isNew && context.split === undefined && (context.share?.index ?? 0) === 0) {
      await this.#look(lists, columns, context);
    }
    return joinColumns(columns);
  };

  #listNow({ storage, onNotice }: ListingContext): Promise<Columns> {
    const tell = (message: string): void => {
      if (!this.#told.has(message)) {
        this.#told.add(message);
        onNotice?.(message);
      }
    };
    return Promise.all(this.#columns.map((files) => listFiles(storage, files, { onNotice: tell })));
  }

  #epochOf({ passes }: ListingContext): number | null {
    if (this.#refresh === 'never') {
      return null;
    }
    const [epoch] = passes ?? [];
    if (epoch === undefined) {
      throw new TonyError('USAGE', "refresh: 'epoch' cannot be combined with cache(), which keeps the elements of the first epoch", {
        hint: 'Remove cache(), or set localCopy.',
      });
    }
    return epoch;
  }

  /** Compares the files with the agreed list. Only one of the readers does so. */
  async #look(lists: InputLists, agreed: Columns, context: ListingContext): Promise<void> {
    let columns: Columns;
    try {
      columns = await Promise.all(this.#columns.map((files) => listFiles(context.storage, files, { mayBeMissing: true })));
    } catch (error) {
      if (isStorageUnreachable(error)) {
        // Reading the files either fails with the same error, or does not need the storage.
        return;
      }
      throw error;
    }
    const now = new Map(columns.flat().map((file) => [file.uri, file]));
    for (const file of agreed.flat()) {
      const found = now.get(file.uri);
      if (found === undefined) {
        throw removedFile(file);
      }
      if (hasChanged(file, found, lists)) {
        throw changedFile(file);
      }
      now.delete(file.uri);
    }
    const news = [...now.keys()].filter((uri) => lists.isNews(uri));
    if (news.length > 0 && this.#refresh === 'never') {
      const count = news.length === 1 ? `${news[0]} was` : `${news.length} files, such as ${news[0]}, were`;
      context.onNotice?.(
        `${count} added after the dataset's files were listed, so no epoch uses them; \`refresh: 'epoch'\` lists again in each epoch`,
      );
    }
  }
}

/** Returns the files of the first column, with the files at the same index in the other columns as their companions. */
function joinColumns([first = [], ...others]: Columns): readonly DataFile[] {
  if (others.length === 0) {
    return first;
  }
  const odd = others.find(({ length }) => length !== first.length);
  if (odd !== undefined) {
    const names = (files: readonly DataFile[]) => `${files[0]?.uri}${files.length > 1 ? ` and ${files.length - 1} more` : ''}`;
    throw new TonyError('DATA_INVALID', `the columns have different numbers of files: ${names(first)}, but ${names(odd)}`);
  }
  return first.map((file, index) => ({ ...file, companions: others.map((column) => column[index] as DataFile) }));
}
