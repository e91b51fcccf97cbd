import { rm } from 'node:fs/promises';
import path from 'node:path';
import { extract } from 'tar';
import { downloadNode } from '../client/runtime/downloads.ts';
import { NODE_PACKAGES, type NodeMajor } from '../client/runtime/pins.ts';
import { keptFolder } from './cluster/kept-folder.mjs';

const CACHE = path.resolve(import.meta.dirname, '..', '.cache', 'node');

export const NODE_MAJORS: readonly NodeMajor[] = [20, 22, 24];

/** Returns the path of the Node.js executable with this major version. Downloads the executable once, without the rest of the runtime. */
export async function nodeOfMajor(major: NodeMajor): Promise<string> {
  const node = NODE_PACKAGES[major][process.arch === 'arm64' ? 'arm64' : 'x64'];
  const folder = await keptFolder(path.join(CACHE, `${node.name}-${node.version}`), async (partial) => {
    const tarball = await downloadNode(node, partial, AbortSignal.timeout(150_000));
    await extract({ file: tarball, cwd: partial, strip: 2, filter: (name) => name === 'package/bin/node' });
    await rm(tarball);
  });
  return path.join(folder, 'node');
}
