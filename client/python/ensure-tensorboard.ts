import { createHash } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { findPythons, ISOLATION, type Python } from '../../platform/python-interpreters.ts';
import { PACKAGES_FILE, readPackages } from '../../platform/python-packages.ts';
import { cacheFolder } from '../runtime/cache.ts';
import { downloadWheels } from '../runtime/downloads.ts';
import { type Built, type BuiltFiles, ensureBuilt, readBuilt, refuseForeignShelf } from '../runtime/ensure-built.ts';
import type { Architecture } from '../runtime/pins.ts';
import { type ProgressWriter, withElapsedTime } from '../runtime/progress.ts';
import { pruneFolder } from '../runtime/prune.ts';
import { architectureOf } from '../runtime/recipe.ts';
import { runExplained } from '../runtime/tool.ts';
import { unpackWheels } from '../runtime/unpack-wheels.ts';
import { sideBySide } from '../terminal/side-by-side.ts';
import { describeTree, packPackages } from './pack-packages.ts';
import { type PinnedWheel, PYTHON_FOLDERS, TENSORBOARD_VERSION, tensorBoardWheels } from './tensorboard-pins.ts';

/** Files that only compilers, type checkers and test runners need. */
const FOLDERS = /(^|\/)(tests?|testdata|include|f2py|distutils)\//;
const FILES = /\.(pyi|pxd|pyx|a|c|h|cc|f90)$|(^|\/)py\.typed$/;
/** NumPy's compiled test modules, except `_multiarray_tests`, which NumPy 2.0 imports when it starts. */
const NUMPY_TESTS = /(^|\/)numpy\/_core\/_(simd|(operand_flag|rational|struct_ufunc|umath)_tests)\./;
/** Libraries that Pillow does not need for PNG, JPEG, GIF and BMP. TensorBoard uses Pillow only to detect the format of an image. */
const PILLOW_FORMATS = /(^|\/)PIL\/_(avif|webp|imagingft|imagingcms|imagingtk)\./;
const PILLOW_LIBRARIES = /(^|\/)pillow\.libs\/lib(avif|brotli\w+|freetype|harfbuzz|lcms2|png16|sharpyuv|webp\w*)-/;
/**
 * MarkupSafe's compiled module. Without it, MarkupSafe falls back to pure Python code, which works with all Python versions and on all
 * machines.
 */
const SPEEDUPS = /(^|\/)markupsafe\/_speedups\./;
const INSTALLER = /\.dist-info\/(RECORD|WHEEL|top_level\.txt|INSTALLER|sboms\/.*)$/;

/**
 * Returns true if the file is a licence, or if TensorBoard needs the file at run time.
 * @param file path within the wheel
 */
export function isNeededByTensorBoard(file: string): boolean {
  if (/\.dist-info\//.test(file)) {
    return !INSTALLER.test(file);
  }
  return ![FOLDERS, FILES, NUMPY_TESTS, PILLOW_FORMATS, PILLOW_LIBRARIES, SPEEDUPS].some((pattern) => pattern.test(file));
}

/** Content of tensorboard.json. */
interface TensorBoardDescription {
  readonly key: string;
  readonly tensorboard: string;
  readonly sha256: string;
  readonly size: number;
}

const AT_ONCE = 3;

/**
 * Builds TensorBoard in `folder` for all supported Python versions. All downloads come from the Python package registry.
 *
 *   tree/packages.json       a PackagesDescription
 *   tree/packages/           packages for all Python versions
 *   tree/python-3.N/         packages of one Python version
 *   tensorboard.tar.gz       the tree
 *   tensorboard.json         a TensorBoardDescription
 *
 * @throws TonyError RUNTIME_*
 */
async function buildTensorBoard(architecture: Architecture, key: string, folder: string, progress: ProgressWriter): Promise<void> {
  const say = withElapsedTime(progress);
  const tree = path.join(folder, 'tree');
  const scratch = path.join(folder, 'scratch');
  const versions = Object.keys(PYTHON_FOLDERS);
  say(`downloading TensorBoard ${TENSORBOARD_VERSION} for Python ${versions[0]} to ${versions.at(-1)}`);
  const wheels = tensorBoardWheels(architecture);
  const [first = '', ...rest] = versions;
  const downloads = new Map<string, DownloadedWheel[]>();
  const download = async (version: string, signal: AbortSignal): Promise<void> => {
    downloads.set(version, await downloadFor(version, wheels, architecture, scratch, say, signal));
  };
  // The first download includes the packages that all versions share. Wait for it before starting the others, so that an unreachable
  // registry causes only one error.
  await download(first, new AbortController().signal);
  const worker = async (signal: AbortSignal): Promise<void> => {
    for (let version = rest.shift(); version !== undefined; version = rest.shift()) {
      await download(version, signal);
    }
  };
  await sideBySide((signal) => Array.from({ length: AT_ONCE }, () => worker(signal)));
  // Unpack the versions one after the other, because wheels for different Python versions contain some of the same files.
  for (const { wheel, file } of versions.flatMap((version) => downloads.get(version) ?? [])) {
    await mkdir(path.join(tree, wheel.folder), { recursive: true });
    await unpackWheels([file], { folder: path.join(tree, wheel.folder) }, new AbortController().signal);
    await rm(file);
  }
  for (const packages of await readdir(tree)) {
    await pruneFolder(path.join(tree, packages), isNeededByTensorBoard);
  }

  const machine = architecture === 'x64' ? 'x86_64' : 'aarch64';
  await describeTree(tree, { title: 'TensorBoard', machine, pythons: PYTHON_FOLDERS });
  await prove(tree, scratch, say);
  await rm(scratch, { recursive: true, force: true });
  await packPackages(folder, 'tensorboard', { key, tensorboard: TENSORBOARD_VERSION }, say);
}

interface DownloadedWheel {
  readonly wheel: PinnedWheel;
  readonly file: string;
}

async function downloadFor(
  version: string,
  all: readonly PinnedWheel[],
  architecture: Architecture,
  scratch: string,
  say: ProgressWriter,
  signal: AbortSignal,
): Promise<DownloadedWheel[]> {
  const wheels = all.filter(({ python }) => python === version);
  const files = await downloadWheels(`TensorBoard's packages for Python ${version}`, wheels, {
    python: version,
    architecture,
    folder: path.join(scratch, version),
    signal,
  });
  say(`downloaded the packages for Python ${version}`);
  return wheels.map((wheel, at) => {
    const file = files[at];
    if (file === undefined) {
      throw new TonyError('INTERNAL', `${wheel.name} was not downloaded`);
    }
    return { wheel, file };
  });
}

const PROOF = 'import sys, json; sys.path[:0] = json.loads(sys.argv[1]); from tensorboard import default, program; default.get_plugins()';

/** Starts TensorBoard with each supported Python version on this machine. The nodes may have other Python versions. */
async function prove(tree: string, scratch: string, say: ProgressWriter): Promise<void> {
  const packages = (await readPackages(tree)) ?? 'the build wrote no packages';
  const pythons = typeof packages === 'string' ? packages : await findPythons(packages);
  if (typeof pythons === 'string') {
    say(`not tested: ${pythons}`);
    return;
  }
  await Promise.all(pythons.map((python) => proveWith(python, tree, scratch)));
  say(`verified: TensorBoard starts with Python ${pythons.map(({ version }) => version).join(', ')}`);
}

async function proveWith(python: Python, tree: string, scratch: string): Promise<void> {
  const bytecode = path.join(scratch, `bytecode-${python.version}`);
  const args = [...ISOLATION, '-X', `pycache_prefix=${bytecode}`, '-c', PROOF, JSON.stringify(python.packages)];
  try {
    await runExplained({ command: python.command, args, cwd: tree, timeoutMs: 180_000 }, (failure) => {
      const message = `the new copy of TensorBoard did not start: ${failure.message}\n${failure.lastLines(15)}`;
      return new TonyError('RUNTIME_INVALID', message, { hint: 'The output above shows the cause.', cause: failure });
    });
  } finally {
    await rm(bytecode, { recursive: true, force: true });
  }
}

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
