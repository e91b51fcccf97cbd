import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { findPythons, ISOLATION, type Python } from '../../platform/python/interpreters.ts';
import { readPackages } from '../../platform/python/packages.ts';
import { downloadWheels } from '../runtime/downloads.ts';
import type { Architecture } from '../runtime/pins.ts';
import { type ProgressWriter, withElapsedTime } from '../runtime/progress.ts';
import { pruneFolder } from '../runtime/prune.ts';
import { runExplained } from '../runtime/tool.ts';
import { unpackWheels } from '../runtime/unpack-wheels.ts';
import { sideBySide } from '../terminal/side-by-side.ts';
import { describeTree, packPackages } from './pack-packages.ts';
import { isNeededByTensorBoard } from './prune-python.ts';
import { type PinnedWheel, PYTHON_FOLDERS, TENSORBOARD_VERSION, tensorBoardWheels } from './tensorboard-pins.ts';

/** Content of tensorboard.json. */
export interface TensorBoardDescription {
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
export async function buildTensorBoard(architecture: Architecture, key: string, folder: string, progress: ProgressWriter): Promise<void> {
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
      return new TonyError('RUNTIME_BROKEN', message, { hint: 'The output above shows the cause.', cause: failure });
    });
  } finally {
    await rm(bytecode, { recursive: true, force: true });
  }
}
