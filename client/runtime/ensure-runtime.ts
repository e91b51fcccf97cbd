import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { buildRuntime, type RuntimeDescription } from './build-runtime.ts';
import { runtimesFolder } from './cache.ts';
import { type Built, ensureBuilt, refuseForeignShelf, removeBuilt } from './ensure-built.ts';
import type { Progress } from './progress.ts';
import { type RuntimeOptions, recipeOf } from './recipe.ts';

/** A runtime in this machine's cache. */
export interface Runtime extends RuntimeDescription {
  /** Absolute path of runtime.tar.gz, which the cluster's nodes unpack. */
  readonly archive: string;
  /** Absolute path of the unpacked archive: bin/node, node_modules/. */
  readonly tree: string;
}

/** Returns the cached runtime, or null if there is none. Takes milliseconds. @throws TonyError FOLDER_UNSAFE, RUNTIME_BROKEN */
export async function findRuntime(options: RuntimeOptions = {}): Promise<Runtime | null> {
  await refuseForeignShelf(runtimesFolder());
  return read(path.join(runtimesFolder(), recipeOf(options).key));
}

/**
 * Returns the runtime from the cache or builds it (about a minute, 220 MB of downloads). Safe for concurrent processes: one builds, the
 * others wait. An interrupted build leaves no runtime.
 * @param progress receives lines of progress; not called if the runtime is cached
 * @throws TonyError RUNTIME_UNSUPPORTED, RUNTIME_TOOL_MISSING, RUNTIME_DOWNLOAD_FAILED, RUNTIME_HASH_MISMATCH, RUNTIME_COMPILE_FAILED,
 *   RUNTIME_BROKEN, RUNTIME_CACHE_UNWRITABLE
 */
export async function ensureRuntime(progress: Progress = () => {}, options: RuntimeOptions = {}): Promise<Runtime> {
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

async function read(folder: string): Promise<Runtime | null> {
  let text: string;
  try {
    text = await readFile(path.join(folder, 'runtime.json'), 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) {
      return null;
    }
    throw error;
  }
  const runtime = {
    ...(JSON.parse(text) as RuntimeDescription),
    archive: path.join(folder, 'runtime.tar.gz'),
    tree: path.join(folder, 'tree'),
  };
  const archive = await stat(runtime.archive).catch(() => null);
  const node = await stat(path.join(runtime.tree, 'bin', 'node')).catch(() => null);
  if (archive?.size !== runtime.size || node === null) {
    throw new TonyError('RUNTIME_BROKEN', `the runtime in ${folder} is damaged: files were removed or changed after the build`);
  }
  return runtime;
}
