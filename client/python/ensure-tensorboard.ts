import { createHash } from 'node:crypto';
import path from 'node:path';
import { PACKAGES_FILE } from '../../platform/python/packages.ts';
import { cacheFolder } from '../runtime/cache.ts';
import { type Built, type BuiltFiles, ensureBuilt, readBuilt, refuseForeignShelf } from '../runtime/ensure-built.ts';
import type { ProgressWriter } from '../runtime/progress.ts';
import { architectureOf } from '../runtime/recipe.ts';
import { buildTensorBoard, type TensorBoardDescription } from './build-tensorboard.ts';
import { PYTHON_FOLDERS, TENSORBOARD_VERSION, tensorBoardWheels } from './tensorboard-pins.ts';

/** Cached copy of TensorBoard for all supported Python versions. */
export interface TensorBoardArchive extends TensorBoardDescription, BuiltFiles {}

/** Version of the archive layout. Increment it when the same wheels produce a different archive, so that cached archives are rebuilt. */
const LAYOUT = 3;

/** Returns TensorBoard from the cache, or null if the cache does not contain it. */
export async function findTensorBoard(): Promise<TensorBoardArchive | null> {
  const { shelf, key, read } = built();
  await refuseForeignShelf(shelf);
  return read(path.join(shelf, key));
}

/**
 * Returns TensorBoard from the cache, or builds it (about one minute, 160 MB of downloads). Safe for concurrent processes.
 * @param progress called with progress lines during a build
 * @throws TonyError RUNTIME_*
 */
export async function ensureTensorBoard(progress: ProgressWriter = () => {}): Promise<TensorBoardArchive> {
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

function read(folder: string): Promise<TensorBoardArchive | null> {
  const broken = { subject: 'TensorBoard', hint: 'Remove this folder; the next submit builds it again.' };
  return readBuilt<TensorBoardDescription>(folder, 'tensorboard', PACKAGES_FILE, broken);
}
