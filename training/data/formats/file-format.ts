import { TonyError } from '../../../platform/errors.ts';
import { localContext } from '../local-copy/local-copy.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { DatasetNode, ReadContext } from '../reading/read-context.ts';
import type { FileFormat } from '../reading/split.ts';
import { parallelMapNode } from '../transforms/map.ts';
import { readContents } from './file-bytes.ts';
import type { SourceOptions } from './source-options.ts';
import { MAX_RECORD_BYTES } from './tfrecord-format.ts';

export interface FileContents {
  readonly uri: string;
  readonly bytes: Buffer;
}

/** Yields one element for each file, without its contents. */
export const listedFiles: FileFormat<DataFile> = {
  isSplittable: () => false,
  async *read({ file }) {
    yield { items: [file], from: null, bytes: file.size };
  },
};

export interface ContentsOptions extends Pick<SourceOptions, 'localCopy'> {
  /** Number of files to read concurrently. Default: 8. */
  readonly parallelCalls?: number;
  /** Maximum size of a file in bytes. A larger file is rejected before it is read. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

/** Yields each file with its contents. Reads several files concurrently, because latency dominates the time to read a small file. */
export function contentsNode(files: DatasetNode<DataFile>, options: ContentsOptions): DatasetNode<FileContents> {
  const { parallelCalls = 8, maxRecordBytes = MAX_RECORD_BYTES, localCopy = false } = options;
  const read = async (file: DataFile, context: ReadContext) => {
    const copying = localCopy === false ? context : await localContext(context, [file], localCopy);
    return await readWhole(file, maxRecordBytes, copying);
  };
  return parallelMapNode(files, read, parallelCalls);
}

async function readWhole(file: DataFile, maxBytes: number, context: ReadContext): Promise<FileContents> {
  if (file.size > maxBytes) {
    throw new TonyError('DATA_INVALID', `${file.uri} has ${file.size} bytes; the maximum is ${maxBytes} (maxRecordBytes)`);
  }
  const bytes = Buffer.allocUnsafeSlow(file.size);
  let at = 0;
  for await (const piece of readContents(file, 'none', 0, context)) {
    at += piece.copy(bytes, at);
  }
  return { uri: file.uri, bytes };
}
