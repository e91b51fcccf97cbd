import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { messageOf } from '../../platform/errors.ts';
import { copyTree } from '../../platform/files/copy-tree.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { findPythons, type Python } from '../../platform/python-interpreters.ts';
import { type Packages, readPackages } from '../../platform/python-packages.ts';

const execute = promisify(execFile);
/** Timeout in ms for conda-unpack, which rewrites the paths in all of the environment's files. */
const REPAIR_MS = 10 * 60_000;
const PYTHON_MS = 60_000;
const VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])';

/**
 * Prepares an unpacked conda-pack or venv-pack archive for use in a container.
 * @param shipped the unpacked archive, which all containers on the node share
 * @returns the environment's folder, or a message if the environment's interpreter does not run on this node
 */
async function preparePackedEnvironment(container: string, shipped: string): Promise<{ readonly folder: string } | string> {
  const root = await findRoot(shipped);
  if (root === null) {
    return 'The archive that python.archive specifies contains no bin/python. Pack a whole environment with conda-pack or venv-pack.';
  }
  const broken = await whyBroken(root);
  if (broken !== null) {
    return broken;
  }
  if (!existsSync(path.join(root, 'bin', 'conda-unpack'))) {
    return { folder: root };
  }
  try {
    return { folder: await repairedCopy(container, root) };
  } catch (error) {
    return `conda-unpack failed: ${messageOf(error)} Pack the environment again with the newest conda-pack.`;
  }
}

/** Returns the folder that contains `bin/python`. This is either the archive's root folder, or the only folder in the root folder. */
async function findRoot(shipped: string): Promise<string | null> {
  const names = await readdir(shipped);
  const roots = [shipped, ...(names.length === 1 ? [path.join(shipped, names[0] ?? '')] : [])];
  for (const root of roots) {
    const commands = await readdir(path.join(root, 'bin')).catch(() => []);
    if (commands.some((name) => name === 'python' || name === 'python3')) {
      return root;
    }
  }
  return null;
}

/** Returns a message if the interpreter does not run, or if its version is not compatible with the packages. Returns null otherwise. */
async function whyBroken(root: string): Promise<string | null> {
  const bin = path.join(root, 'bin');
  const name = (await readdir(bin)).includes('python3') ? 'python3' : 'python';
  const interpreter = path.join(bin, name);
  const target = await readlink(interpreter).catch(() => '');
  const what = `The interpreter bin/${name} in python.archive${target === '' ? '' : ` is a link to ${target}. It`}`;
  const hint = 'Pack an environment with its own interpreter (conda-pack), or install this Python on the nodes.';
  if ((await stat(interpreter).catch(() => null)) === null) {
    return `${what} does not exist on this node. ${hint}`;
  }
  try {
    const { stdout } = await execute(interpreter, ['-I', '-S', '-c', VERSION], { timeout: PYTHON_MS, killSignal: 'SIGKILL' });
    const version = stdout.trim();
    return existsSync(path.join(root, 'lib', `python${version}`))
      ? null
      : `${what} is Python ${version} on this node, but the archive has no packages for it. ${hint}`;
  } catch (error) {
    return `${what} does not run on this node: ${messageOf(error)} ${hint}`;
  }
}

/** Copies the environment once per container, because conda-unpack writes the environment's path into its files. */
async function repairedCopy(container: string, root: string): Promise<string> {
  const folder = path.join(container, CONTAINER_LAYOUT.virtualEnvironment);
  if (existsSync(folder)) {
    return folder;
  }
  const unfinished = `${folder}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  await copyTree(root, unfinished);
  await rename(unfinished, folder);
  const command = [path.join(folder, 'bin', 'python'), [path.join(folder, 'bin', 'conda-unpack')]] as const;
  await execute(...command, { timeout: REPAIR_MS, killSignal: 'SIGKILL' }).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  return folder;
}

/**
 * Creates a virtual environment in a container, as `python3 -m venv` does. The environment consists of links to the node's interpreter and
 * to the shipped packages, which all containers on the node share.
 * @param container absolute path of the container's working directory
 * @param shipped folder that contains the packages
 * @param environment the program's environment variables
 * @returns the virtual environment's folder, or a message if the node does not have the required Python version
 */
async function prepareVirtualEnvironment(
  container: string,
  shipped: string,
  packages: Packages,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly folder: string } | string> {
  const pythons = await findPythons(packages, environment);
  if (typeof pythons === 'string') {
    return `${pythons} Set python.version in job.yaml to the version on the nodes, or keep the job off this node with nodeLabel.`;
  }
  const folder = path.join(container, CONTAINER_LAYOUT.virtualEnvironment);
  await createVirtualEnvironment(folder, shipped, pythons[0] as Python);
  return { folder };
}

async function createVirtualEnvironment(folder: string, shipped: string, { executable, version }: Python): Promise<void> {
  const bin = path.join(folder, 'bin');
  await rm(folder, { recursive: true, force: true });
  await mkdir(bin, { recursive: true, mode: 0o700 });
  // The format of pyvenv.cfg: https://docs.python.org/3/library/site.html
  const settings = [`home = ${path.dirname(executable)}`, 'include-system-site-packages = false', `version = ${version}`];
  await writeFile(path.join(folder, 'pyvenv.cfg'), `${settings.join('\n')}\n`);
  const interpreters = ['python', 'python3', `python${version}`];
  await Promise.all(interpreters.map((name) => symlink(executable, path.join(bin, name))));
  const commands = await readdir(path.join(shipped, 'bin')).catch(ifMissing([]));
  const others = (await readdir(shipped)).filter((name) => name !== 'bin');
  await Promise.all([
    ...commands
      .filter((name) => !interpreters.includes(name))
      .map((name) => symlink(path.join(shipped, 'bin', name), path.join(bin, name))),
    ...others.map((name) => symlink(path.join(shipped, name), path.join(folder, name))),
  ]);
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Environment variables and setup that let a program use its job's Python environment. */
export interface Activation {
  readonly variables: Readonly<Record<string, string>>;
  /** Bash command to run before the program's own command. Empty if there is none. */
  readonly setup: string;
}

/** Runs the scripts that Conda packages use to set variables. */
const CONDA_SETUP = 'for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do [ -r "$script" ] && . "$script"; done; unset script';

/**
 * Makes the job's Python environment usable in a container.
 * @param container absolute path of the container's working directory
 * @param environment the program's environment variables
 * @returns a message if the Python environment does not work on this node
 */
export async function activateEnvironment(container: string, environment: Variables): Promise<Activation | string> {
  const shipped = path.join(container, CONTAINER_LAYOUT.environment);
  const packages = await readPackages(shipped);
  if (typeof packages === 'string') {
    return packages;
  }
  const prepared =
    packages === null
      ? await preparePackedEnvironment(container, shipped)
      : await prepareVirtualEnvironment(container, shipped, packages, environment);
  return typeof prepared === 'string' ? prepared : activationOf(prepared.folder, environment);
}

/** Returns the environment variables that `activate` sets in a virtual environment or a Conda environment. */
function activationOf(folder: string, { PATH, PYTHONHOME, PYTHONDONTWRITEBYTECODE }: Variables): Activation {
  const isConda = existsSync(path.join(folder, 'conda-meta'));
  const variables = {
    ...(isConda ? { CONDA_PREFIX: folder, CONDA_DEFAULT_ENV: folder } : { VIRTUAL_ENV: folder }),
    PATH: [path.join(folder, 'bin'), PATH ?? '/usr/local/bin:/usr/bin:/bin'].join(path.delimiter),
    // Otherwise, PYTHONHOME would replace the environment's standard library.
    ...(PYTHONHOME !== undefined && { PYTHONHOME: '' }),
    // Otherwise, Python would write compiled files to the NodeManager's cache, which all containers share.
    PYTHONDONTWRITEBYTECODE: PYTHONDONTWRITEBYTECODE ?? '1',
  };
  return { variables, setup: isConda ? CONDA_SETUP : '' };
}
