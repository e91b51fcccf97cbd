import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { findPythons, type Python } from '../../platform/python/interpreters.ts';
import type { Packages } from '../../platform/python/packages.ts';

/**
 * Creates a virtual environment in a container, as `python3 -m venv` does. The environment consists of links to the node's interpreter and
 * to the shipped packages, which all containers on the node share.
 * @param container absolute path of the container's working directory
 * @param shipped folder that contains the packages
 * @param environment the program's environment variables
 * @returns the virtual environment's folder, or a message if the node does not have the required Python version
 */
export async function prepareVirtualEnvironment(
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
