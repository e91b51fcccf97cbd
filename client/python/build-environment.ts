import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { counted } from '../../conf/values/quantities.ts';
import { TonyError } from '../../platform/errors.ts';
import { findPythons, ISOLATION, type Python } from '../../platform/python-interpreters.ts';
import { type PackagesDescription, readPackages } from '../../platform/python-packages.ts';
import { hashFile } from '../job/source-archive.ts';
import { downloadPackages, PROJECT_WHEEL, type Requirements } from '../runtime/download-packages.ts';
import { type ProgressWriter, withElapsedTime } from '../runtime/progress.ts';
import type { Target } from '../runtime/target-platform.ts';
import { runExplained, runTool, ToolFailure } from '../runtime/tool.ts';
import { unpackWheels } from '../runtime/unpack-wheels.ts';
import { describeTree, packPackages } from './pack-packages.ts';
import { parseRequirementLine } from './requirement-line.ts';
import { type RequirementsFile, requirementLines } from './requirements-files.ts';
import { compareGlibc, parseWheelName } from './wheel-name.ts';

const EXPORT_MS = 60_000;
const EXPORT = ['export', '--frozen', '--no-dev', '--no-emit-project'];
const OFFLINE = ['--quiet', '--no-config', '--offline', '--no-python-downloads', '--no-cache'];

/**
 * Converts a uv.lock with the user's uv, because no other program reads this format. `uv export --frozen` runs no code of packages, does not
 * choose versions, and needs neither a network nor an interpreter.
 * @param scratch folder for uv's output
 * @returns requirements that list every package that the project needs, with its checksums
 * @throws TonyError PYTHON_PACKAGES_NOT_FOUND, RUNTIME_TOOL_NOT_FOUND
 */
async function readLock(file: string, scratch: string): Promise<string[]> {
  const exported = path.join(scratch, 'exported.txt');
  const args = [...EXPORT, ...OFFLINE, '--output-file', exported];
  await runExplained({ command: 'uv', args, cwd: path.dirname(file), timeoutMs: EXPORT_MS }, (failure) => {
    const message = `uv cannot export ${file}: ${failure.message}\n${failure.lastLines(5)}`;
    return new TonyError('PYTHON_PACKAGES_NOT_FOUND', message, { hint: 'Update uv.lock with `uv lock`, and try again.', cause: failure });
  }).catch((error: unknown) => {
    if (!(error instanceof TonyError && error.code === 'RUNTIME_TOOL_NOT_FOUND')) {
      throw error;
    }
    throw new TonyError('RUNTIME_TOOL_NOT_FOUND', `uv is not installed (or not on the PATH), and ${file} can be read only by uv`, {
      hint: `Install uv (\`python3 -m pip install uv\`). Or run \`uv ${EXPORT.join(' ')} --output-file requirements.txt\` where uv is installed, and name requirements.txt in python.requirements.`,
      cause: error,
    });
  });
  const fromFolder = (name: string): string => path.resolve(path.dirname(file), name);
  return requirementLines(await readFile(exported, 'utf8')).map(({ line }) => {
    const parsed = parseRequirementLine(line, { fromFolder, fromFile: fromFolder, links: fromFolder });
    if (parsed?.type !== 'requirement') {
      throw new TonyError(
        'PYTHON_PACKAGES_NOT_FOUND',
        `${file} lists a package that is not a wheel, but the nodes can use only wheels: ${line}`,
        {
          hint: 'Build a wheel of the package, and publish it in a registry.',
        },
      );
    }
    return parsed.text;
  });
}

/** @param file name of the requirements file, or null if the job uses a file that cannot name an index */
function indexHint(file: string | null): string {
  const place = file ?? 'a requirements.txt that replaces this file';
  return `Check that pip can reach an index from this machine. Without internet, name a mirror in ${place} (\`--index-url URL\`) or in pip.conf, or use a folder of wheels: the lines \`--no-index\` and \`--find-links wheels\` in ${place}.`;
}

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
 * @throws TonyError PYTHON_PACKAGES_NOT_FOUND, RUNTIME_*
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
  for (const { variable, host } of sentVariables(requirements)) {
    say(`pip sends the environment variable ${variable} to ${host}`);
  }
  const { signal } = new AbortController();
  const forDownload = await forPip(requirements, wheels);
  const unreachableHint = indexHint(forDownload.kind === 'requirements' ? path.basename(requirements.file) : null);
  await downloadPackages(what, { ...forDownload, folder: wheels, target, unreachableHint }, signal);
  const files = (await readdir(wheels)).filter((name) => !name.endsWith('.txt') && name !== PROJECT_WHEEL).sort();
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
 * Returns the environment variables that URLs in the requirements contain, with the host as it is written. The requirements may come from
 * somebody else, and pip sends the values to the host without a message.
 */
export function sentVariables({ lines }: Pick<RequirementsFile, 'lines'>): { readonly variable: string; readonly host: string }[] {
  const urls = [...lines.requirements, ...lines.constraints].flatMap((line) => [
    ...line.matchAll(/https?:\/\/(?:[^\s/@]*@)?([^\s/?#@]+)\S*/g),
  ]);
  const sent = urls.flatMap(([url, host = '']) =>
    [...url.matchAll(/\$\{([A-Z0-9_]+)\}/g)].map(([, variable = '']) => ({ variable, host })),
  );
  return [...new Map(sent.filter(({ variable }) => process.env[variable]).map((each) => [JSON.stringify(each), each])).values()];
}

/** Writes the accepted lines of a requirements file or uv.lock to `folder`. pip reads these files instead of the user's own. */
async function forPip({ file, kind, lines }: RequirementsFile, folder: string): Promise<Requirements> {
  if (kind === 'pyproject') {
    return { file, kind };
  }
  const write = async (name: string, text: readonly string[]): Promise<string> => {
    const written = path.join(folder, name);
    await writeFile(written, text.map((line) => `${line}\n`).join(''));
    return written;
  };
  if (kind === 'lock') {
    return { file: await write('requirements.txt', await readLock(file, folder)), kind: 'pinned' };
  }
  await write('constraints.txt', lines.constraints);
  return { file: await write('requirements.txt', ['-c constraints.txt', ...lines.requirements]), kind };
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
