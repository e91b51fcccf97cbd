import type { Storage } from '../../storage/storage.ts';
import { isObjectStoreUri } from '../../storage/uri.ts';
import type { CheckpointFolders } from './checkpoint-folders.ts';
import { LoggingPublication } from './logging-publication.ts';
import { RenamingPublication } from './renaming-publication.ts';

/** @param indexName the name of the file that describes the other files in a checkpoint and is written last. */
export function openCheckpointFolders(storage: Storage, dir: string, indexName: string): CheckpointFolders {
  const Publication = isObjectStoreUri(dir) ? LoggingPublication : RenamingPublication;
  return new Publication(storage, dir, indexName);
}
