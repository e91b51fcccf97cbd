import path from 'node:path';
import { buildRuntime, type RuntimeDescription } from './build-runtime.ts';
import { runtimesFolder } from './cache.ts';
import { type Built, type BuiltFiles, ensureBuilt, readBuilt, refuseForeignShelf, removeBuilt } from './ensure-built.ts';
import type { ProgressWriter } from './progress.ts';
import { type RuntimeOptions, recipeOf } from './recipe.ts';

/** Cached runtime. Its unpacked archive contains bin/node and node_modules/. */
export interface Runtime extends RuntimeDescription, BuiltFiles {}

/**
 * Returns the cached runtime, or null if the cache does not contain it.
 * @throws TonyError FOLDER_DENIED, RUNTIME_INVALID
 */
export async function findRuntime(options: RuntimeOptions = {}): Promise<Runtime | null> {
  await refuseForeignShelf(runtimesFolder());
  return read(path.join(runtimesFolder(), recipeOf(options).key));
}

/**
 * Returns the runtime from the cache, or builds it (about one minute, 220 MB of downloads). Safe for concurrent processes; see
 * `ensureBuilt`.
 * @param progress called with progress lines during a build
 * @throws TonyError RUNTIME_UNSUPPORTED, RUNTIME_TOOL_NOT_FOUND, RUNTIME_DOWNLOAD_FAILED, RUNTIME_HASH_MISMATCH, RUNTIME_COMPILE_FAILED,
 *   RUNTIME_INVALID, RUNTIME_CACHE_UNWRITABLE
 */
export async function ensureRuntime(progress: ProgressWriter = () => {}, options: RuntimeOptions = {}): Promise<Runtime> {
  return ensureBuilt(builtRuntime(options), progress);
}

/** Removes the runtime from the cache, so that the next call rebuilds it. */
export async function removeRuntime(options: RuntimeOptions = {}): Promise<void> {
  await removeBuilt(builtRuntime(options));
}

function builtRuntime(options: RuntimeOptions): Built<Runtime> {
  const recipe = recipeOf(options);
  return {
    what: 'runtime',
    shelf: runtimesFolder(),
    key: recipe.key,
    read,
    build: (folder, progress) => buildRuntime(recipe, folder, progress),
  };
}

function read(folder: string): Promise<Runtime | null> {
  return readBuilt<RuntimeDescription>(folder, 'runtime', 'bin/node', { subject: 'the runtime' });
}
