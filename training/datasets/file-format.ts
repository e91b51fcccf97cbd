import { TonyError } from '../../conf/errors.ts';
import { readContents } from './file-bytes.ts';
import type { DataFile } from './file-set.ts';
import type { FileFormat } from './file-source.ts';
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

/** Several at a time: reading a small file is mostly waiting. */
export function contentsNode(files: DatasetNode<DataFile>, parallelCalls: number, maxBytes = MAX_RECORD_BYTES): DatasetNode<FileContents> {
  return new ParallelMapNode(files, (file, context) => readWhole(file, maxBytes, context), parallelCalls);
}

async function readWhole(file: DataFile, maxBytes: number, context: ReadContext): Promise<FileContents> {
  if (file.size > maxBytes)
    throw new TonyError('DATA_INVALID', `${file.uri} has ${file.size} bytes; ${maxBytes} are allowed (maxRecordBytes)`);
  const bytes = Buffer.allocUnsafeSlow(file.size);
  let at = 0;
  for await (const piece of readContents(file, 'none', 0, context)) at += piece.copy(bytes, at);
  return { uri: file.uri, bytes };
}
