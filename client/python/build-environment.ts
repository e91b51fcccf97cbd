import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { counted } from '../../conf/values/quantities.ts';
import { findPythons, ISOLATION, type Python } from '../../platform/python/interpreters.ts';
import { type PackagesDescription, readPackages } from '../../platform/python/packages.ts';
import { hashFile } from '../job/source-archive.ts';
import { downloadPackages } from '../runtime/download-packages.ts';
import { type ProgressWriter, withElapsedTime } from '../runtime/progress.ts';
import type { Target } from '../runtime/target-platform.ts';
import { runTool, ToolFailure } from '../runtime/tool.ts';
import { unpackWheels } from '../runtime/unpack-wheels.ts';
import { describeTree, packPackages } from './pack-packages.ts';
import type { RequirementsFile } from './requirements-files.ts';
import { compareGlibc, parseWheelName } from './wheel-name.ts';

export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  /** Oldest glibc version that can load the package, or null if the package does not contain native code. */
  readonly glibc: string | null;
}

/** Content of environment.json. */
export interface EnvironmentDescription {
  readonly key: string;
  readonly python: string;
  readonly machine: string;
  /** Oldest glibc version that can load all packages, or null if no package contains native code. */
  readonly glibc: string | null;
  /** When pip chose the versions, in ms since the epoch. */
  readonly resolvedAt: number;
  readonly packages: readonly LockedPackage[];
  readonly sha256: string;
  readonly size: number;
}

const COMPILE_MS = 20 * 60_000;

/**
 * Builds an environment in `folder` from wheels that the user's pip downloads.
 *
 *   tree/packages.json                    a PackagesDescription
 *   tree/lib/python3.N/site-packages/     the packages
 *   tree/bin/                             their commands
 *   environment.tar.gz                    the tree
 *   environment.json                      an EnvironmentDescription
 *
 * @throws TonyError PYTHON_UNRESOLVED, RUNTIME_*
 */
export async function buildEnvironment(
  requirements: RequirementsFile,
  target: Target,
  key: string,
  folder: string,
  progress: ProgressWriter,
): Promise<void> {
  const say = withElapsedTime(progress);
  const [tree, wheels] = [path.join(folder, 'tree'), path.join(folder, 'wheels')];
  await mkdir(wheels);
  const what = `the packages of ${path.basename(requirements.file)}`;
  say(`downloading ${what} for Python ${target.version}`);
  const { signal } = new AbortController();
  await downloadPackages(what, { ...requirements, folder: wheels, target }, signal);
  const files = (await readdir(wheels)).filter((name) => name !== 'requirements.txt').sort();
  const packages = await Promise.all(
    files.map(async (file): Promise<LockedPackage> => ({ ...parseWheelName(file), sha256: await hashFile(path.join(wheels, file)) })),
  );
  say(`downloaded ${counted(files.length, 'package')}`);

  const site = path.join('lib', `python${target.version}`, 'site-packages');
  const paths = files.map((file) => path.join(wheels, file));
  await mkdir(path.join(tree, site), { recursive: true });
  await unpackWheels(paths, { folder: path.join(tree, site), root: tree }, signal);
  await rm(wheels, { recursive: true });
  const isNative = files.some((file) => !file.endsWith('-any.whl'));
  const description = {
    title: "The job's environment",
    machine: isNative ? target.machine : null,
    pythons: { [target.version]: [site] },
  } satisfies PackagesDescription;
  await describeTree(tree, description);
  await compile(tree, site, say);
  const glibc =
    packages
      .map((each) => each.glibc)
      .toSorted(compareGlibc)
      .at(-1) ?? null;
  const { version: python, machine } = target;
  await packPackages(folder, 'environment', { key, python, machine, glibc, resolvedAt: Date.now(), packages }, say);
}

/**
 * Compiles the packages if this machine has the same Python version as the nodes. Otherwise, Python compiles the packages in memory each
 * time a program starts. `unchecked-hash` prevents Python from comparing compiled files with their sources by modification time, because
 * archives do not preserve these times.
 */
async function compile(tree: string, site: string, say: ProgressWriter): Promise<void> {
  const packages = await readPackages(tree);
  const pythons = packages === null || typeof packages === 'string' ? [] : await findPythons({ ...packages, machine: null });
  const [python] = typeof pythons === 'string' ? [] : pythons;
  if (python === undefined) {
    say('the packages are not compiled, because this machine does not have the same version of Python');
    return;
  }
  await compileWith(python, tree, site);
  say(`compiled the packages with Python ${python.version}`);
}

async function compileWith(python: Python, tree: string, site: string): Promise<void> {
  // Compiled files contain the path that compileall receives, so pass a relative path.
  const args = [...ISOLATION, '-m', 'compileall', '-q', '-j', '0', '--invalidation-mode', 'unchecked-hash', site];
  try {
    await runTool({ command: python.command, args, cwd: tree, timeoutMs: COMPILE_MS });
  } catch (error) {
    // compileall fails if a package contains files that are not valid Python, such as templates. It still compiles all other files.
    if (!(error instanceof ToolFailure)) {
      throw error;
    }
  }
}
