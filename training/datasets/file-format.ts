import { TonyError } from '../../conf/errors.ts';
import { readContents } from './file-bytes.ts';
import type { DataFile } from './file-set.ts';
import type { FileFormat, SourceOptions } from './file-source.ts';
import { withLocalCopies } from './local-copy.ts';
import { ParallelMapNode } from './map.ts';
import type { DatasetNode, ReadContext } from './read-context.ts';
import { MAX_RECORD_BYTES } from './tfrecord-format.ts';

/** A file as one element. */
export interface FileContents {
  readonly uri: string;
  readonly bytes: Buffer;
}

/** The files themselves, unread. */
export const listedFiles: FileFormat<DataFile> = {
  isSplittable: () => false,
  async *read({ file }) {
    yield { items: [file], from: null, bytes: file.size };
  },
};

export interface ContentsOptions extends Pick<SourceOptions, 'localCopy'> {
  /** Files that are read at a time; 8 unless told. */
  readonly parallelCalls?: number;
  /** Checked before memory is taken; 256 MiB unless told. */
  readonly maxRecordBytes?: number;
}

/** Several at a time: reading a small file is mostly waiting. */
export function contentsNode(files: DatasetNode<DataFile>, options: ContentsOptions): DatasetNode<FileContents> {
  const { parallelCalls = 8, maxRecordBytes = MAX_RECORD_BYTES, localCopy = false } = options;
  const read = async (file: DataFile, context: ReadContext) => {
    const { storage, onNotice } = context;
    const copying = localCopy === false ? storage : await withLocalCopies(storage, [file], localCopy === true ? {} : localCopy, onNotice);
    return await readWhole(file, maxRecordBytes, { ...context, storage: copying });
  };
  return new ParallelMapNode(files, read, parallelCalls);
}

async function readWhole(file: DataFile, maxBytes: number, context: ReadContext): Promise<FileContents> {
  if (file.size > maxBytes)
    throw new TonyError('DATA_INVALID', `${file.uri} has ${file.size} bytes; ${maxBytes} are allowed (maxRecordBytes)`);
  const bytes = Buffer.allocUnsafeSlow(file.size);
  let at = 0;
  for await (const piece of readContents(file, 'none', 0, context)) at += piece.copy(bytes, at);
  return { uri: file.uri, bytes };
}
