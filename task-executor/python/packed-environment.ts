import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { messageOf } from '../../platform/errors.ts';
import { copyTree } from '../../platform/files/copy-tree.ts';

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
export async function preparePackedEnvironment(container: string, shipped: string): Promise<{ readonly folder: string } | string> {
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
