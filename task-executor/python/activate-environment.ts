import { existsSync } from 'node:fs';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { readPackages } from '../../platform/python/packages.ts';
import { preparePackedEnvironment } from './packed-environment.ts';
import { prepareVirtualEnvironment } from './virtual-environment.ts';

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
