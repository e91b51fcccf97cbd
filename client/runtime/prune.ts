import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';

/** Only compilers and browsers read these. */
const PACKAGES = new Set(['core-js', 'regenerator-runtime', 'undici-types', '@types', '@webgpu', '.bin', '.package-lock.json']);
const FOLDERS = new Set(['test', 'tests', '__tests__', 'miniprogram', '.github']);
/** What tfjs-node's addon is made from. */
const ADDON_SOURCES = new Set(['binding', 'scripts', 'src', 'python', 'build']);
const FILES = /\.(map|ts|mts|cts|md|markdown|html|flow)$|_test\.js$|^(tsconfig.*|binding\.gyp|prep-gpu.*)$/i;
/** tf.min.js, tf-core.es2017.js, ...: bundles for browsers. Node loads tf*.node.js, and the single modules beside it. */
const BROWSER_BUNDLE = /^tf(-[a-z-]+)?(\.(fesm|es2017))?(\.min)?\.js$/;

/**
 * Whether Node needs a file or folder of node_modules at run time, given its path in there (`@tensorflow/tfjs/dist/tf.min.js`).
 * Pure, and asked for folders before what they hold. Licences stay.
 */
export function isNeeded(file: string): boolean {
  const parts = file.split('/');
  const name = parts.at(-1) ?? '';
  const scoped = file.startsWith('@');
  if (PACKAGES.has(parts[0] ?? '')) return false;
  const inside = parts.slice(scoped ? 2 : 1);
  if (inside.length === 0) return true;
  if (/^(licen[cs]e|copying|notice)/i.test(name)) return true;
  if (inside.some((part) => FOLDERS.has(part))) return false;
  if (FILES.test(name)) return false;
  if (parts[0] === '@tensorflow') {
    if ((parts[1] ?? '').startsWith('tfjs-node') && ADDON_SOURCES.has(inside[0] ?? '')) return false;
    if (inside[0] === 'dist' && inside.length === 2 && BROWSER_BUNDLE.test(name)) return false;
  }
  return true;
}

/** Removes what is not needed from a folder node_modules. */
export async function pruneModules(modules: string): Promise<void> {
  const walk = async (folder: string): Promise<void> => {
    const entries = await readdir(path.join(modules, folder), { withFileTypes: true });
    for (const entry of entries) {
      const file = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (!isNeeded(file)) await rm(path.join(modules, file), { recursive: true });
      else if (entry.isDirectory()) await walk(file);
    }
  };
  await walk('');
}
