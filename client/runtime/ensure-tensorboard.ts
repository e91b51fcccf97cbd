import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { PACKAGES_FILE } from '../../web/tensorboard/packages.ts';
import { buildTensorBoard, type TensorBoardDescription } from './build-tensorboard.ts';
import { cacheFolder } from './cache.ts';
import { type Built, ensureBuilt, refuseForeignShelf } from './ensure-built.ts';
import type { Progress } from './progress.ts';
import { architectureOf } from './recipe.ts';
import { PYTHON_FOLDERS, TENSORBOARD_VERSION, tensorBoardWheels } from './tensorboard-pins.ts';

/** TensorBoard in this machine's cache, for all supported Pythons. */
export interface TensorBoardArchive extends TensorBoardDescription {
  /** Absolute path of tensorboard.tar.gz, which the cluster's nodes unpack. */
  readonly archive: string;
  /** Absolute path of the unpacked archive. */
  readonly tree: string;
}

/** Incremented when the build combines the same wheels in another way. */
const LAYOUT = 2;

/** Returns TensorBoard from the cache, or null if it is not built. Takes milliseconds. */
export async function findTensorBoard(): Promise<TensorBoardArchive | null> {
  const { shelf, key, read } = built();
  await refuseForeignShelf(shelf);
  return read(path.join(shelf, key));
}

/**
 * Returns TensorBoard from the cache or builds it (about a minute, 160 MB of downloads). Safe for concurrent processes.
 * @param progress receives lines of progress; not called if it is cached
 * @throws TonyError RUNTIME_*
 */
export async function ensureTensorBoard(progress: Progress = () => {}): Promise<TensorBoardArchive> {
  return ensureBuilt(built(), progress);
}

function built(): Built<TensorBoardArchive> {
  const architecture = architectureOf();
  const wheels = tensorBoardWheels(architecture);
  const digest = createHash('sha256')
    .update(JSON.stringify({ layout: LAYOUT, folders: PYTHON_FOLDERS, wheels }))
    .digest('hex');
  const key = `tensorboard-${TENSORBOARD_VERSION}-${architecture}-${digest.slice(0, 12)}`;
  return {
    what: 'TensorBoard',
    shelf: path.join(cacheFolder(), 'tensorboard'),
    key,
    read,
    build: (folder, progress) => buildTensorBoard(architecture, key, folder, progress),
  };
}

async function read(folder: string): Promise<TensorBoardArchive | null> {
  let text: string;
  try {
    text = await readFile(path.join(folder, 'tensorboard.json'), 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) {
      return null;
    }
    throw error;
  }
  const found = {
    ...(JSON.parse(text) as TensorBoardDescription),
    archive: path.join(folder, 'tensorboard.tar.gz'),
    tree: path.join(folder, 'tree'),
  };
  const archive = await stat(found.archive).catch(() => null);
  const packages = await stat(path.join(found.tree, PACKAGES_FILE)).catch(() => null);
  if (archive?.size !== found.size || packages === null) {
    throw new TonyError('RUNTIME_BROKEN', `TensorBoard in ${folder} is damaged: files were removed or changed after the build`, {
      hint: 'Remove this folder; the next submit builds it again.',
    });
  }
  return found;
}
