import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';

/** Packages that only compilers and browsers need. */
const PACKAGES = new Set(['core-js', 'regenerator-runtime', 'undici-types', '@types', '@webgpu', '.bin', '.package-lock.json']);
/** Packages that node-pre-gyp uses to unpack downloads during installation, and their dependencies. */
const INSTALLERS = new Set(['tar', 'fs-minipass', 'minizlib', 'minipass', 'chownr', 'yallist', 'mkdirp']);
const FOLDERS = new Set(['test', 'tests', '__tests__', 'miniprogram', '.github']);
/** Sources of the tfjs-node addon. */
const ADDON_SOURCES = new Set(['binding', 'scripts', 'src', 'python', 'build']);
const FILES = /\.(map|ts|mts|cts|md|markdown|html|flow)$|_test\.js$|^(tsconfig.*|binding\.gyp|prep-gpu.*)$/i;
/** Bundles for browsers, such as tf.min.js and tf-core.es2017.js. Node loads tf*.node.js or the individual modules instead. */
const BROWSER_BUNDLE = /^tf(-[a-z-]+)?(\.(fesm|es2017))?(\.min)?\.js$/;

/**
 * Returns true if the file is a licence, or if Node needs the file or folder at run time.
 * @param file path within node_modules, such as `@tensorflow/tfjs/dist/tf.min.js`
 */
export function isNeeded(file: string): boolean {
  const parts = file.split('/');
  const name = parts.at(-1) ?? '';
  const scoped = file.startsWith('@');
  if (PACKAGES.has(parts[0] ?? '') || INSTALLERS.has(parts[0] ?? '')) {
    return false;
  }
  const inside = parts.slice(scoped ? 2 : 1);
  if (inside.length === 0) {
    return true;
  }
  if (/^(licen[cs]e|copying|notice)/i.test(name)) {
    return true;
  }
  if (inside.some((part) => FOLDERS.has(part))) {
    return false;
  }
  if (FILES.test(name)) {
    return false;
  }
  if (parts[0] === '@tensorflow') {
    if ((parts[1] ?? '').startsWith('tfjs-node') && ADDON_SOURCES.has(inside[0] ?? '')) {
      return false;
    }
    if (inside[0] === 'dist' && inside.length === 2 && BROWSER_BUNDLE.test(name)) {
      return false;
    }
  }
  return true;
}

/**
 * Removes the files and folders for which `needed` returns false. `needed` receives paths relative to `folder`. It is called for a folder
 * before it is called for the folder's entries.
 */
export async function pruneFolder(folder: string, needed: (file: string) => boolean): Promise<void> {
  const walk = async (below: string): Promise<void> => {
    const entries = await readdir(path.join(folder, below), { withFileTypes: true });
    for (const entry of entries) {
      const file = path.posix.join(below, entry.name);
      if (!needed(file)) {
        await rm(path.join(folder, file), { recursive: true });
      } else if (entry.isDirectory()) {
        await walk(file);
      }
    }
  };
  await walk('');
}
