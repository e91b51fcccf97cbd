/** Installs node_modules according to package-lock.json. Requires only Node and npm. */
import { spawn } from 'node:child_process';
import { lstat, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

/** @typedef {Record<string, { version?: string, optional?: boolean, peer?: boolean }>} Packages */

/**
 * Runs `npm ci` unless the installed packages match the lock file.
 * @returns {Promise<boolean>} true if this call ran `npm ci`, which also builds dist/ through the script `prepare`
 */
export async function ensureInstalled() {
  if (await isCurrent()) {
    return false;
  }
  const folder = path.join(ROOT, 'node_modules');
  if ((await lstat(folder).catch(() => null))?.isSymbolicLink()) {
    throw new Error(
      `${folder} is a link, and npm ci would empty the folder that it points to. Remove the link, or run npm ci in the other checkout.`,
    );
  }
  const started = Date.now();
  await runInherited('npm', ['ci']);
  // The user's npm configuration may disable scripts.
  const built = await stat(path.join(ROOT, 'dist', 'tony-ts.js')).catch(() => null);
  return built !== null && built.mtimeMs > started;
}

/** npm writes a list of the installed packages. The list may lack optional packages that could not be built. */
async function isCurrent() {
  try {
    const [wanted, present] = await Promise.all(['package-lock.json', 'node_modules/.package-lock.json'].map(readPackages));
    const names = Object.keys(/** @type {Packages} */ (wanted)).filter((name) => name !== '');
    return names.every((name) => wanted?.[name]?.optional || wanted?.[name]?.version === present?.[name]?.version);
  } catch {
    return false;
  }
}

/**
 * @param {string} file
 * @returns {Promise<Packages>}
 */
async function readPackages(file) {
  return JSON.parse(await readFile(path.join(ROOT, file), 'utf8')).packages;
}

/**
 * Runs a program with this terminal's stdin, in the repository's folder.
 * @param {string} program
 * @param {string[]} args
 * @param {{ timeoutMs?: number, env?: NodeJS.ProcessEnv, output?: number | undefined }} [options] `output`: file descriptor for its output
 * @returns {Promise<void>} rejected when the exit code is not 0
 */
export function runInherited(program, args, { timeoutMs = 30 * 60_000, env = process.env, output } = {}) {
  return new Promise((resolve, reject) => {
    const streams = output ?? 'inherit';
    const child = spawn(program, args, { cwd: ROOT, stdio: ['ignore', streams, streams], signal: AbortSignal.timeout(timeoutMs), env });
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) {
        resolve();
      } else {
        reject(new Error(`${path.basename(program)} ${args.join(' ')} ended with ${signal ?? code}`));
      }
    });
  });
}
