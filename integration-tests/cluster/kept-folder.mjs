/** Folders of `.cache` that one process fills, and that later runs keep. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/**
 * Returns the folder. If it does not exist, `fill` fills another folder first, which then gets this name, so the folder is never
 * incomplete. If another process is filling it, waits for that process.
 * @param {string} folder
 * @param {(partial: string) => Promise<unknown>} fill
 * @returns {Promise<string>}
 */
export async function keptFolder(folder, fill) {
  if (existsSync(folder)) {
    return folder;
  }
  await withLock(folder, async () => {
    if (existsSync(folder)) {
      return;
    }
    const partial = `${folder}.new`;
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial);
    try {
      await fill(partial);
      await rename(partial, folder);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  });
  return folder;
}

/**
 * Calls `work` while no other process on this machine holds the folder's lock. The lock also ends when this process ends.
 * @template T
 * @param {string} folder
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(folder, work) {
  await mkdir(path.dirname(folder), { recursive: true });
  const holder = spawn('flock', [`${folder}.lock`, 'sh', '-c', 'echo locked; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(holder, 'exit').then(([code]) => {
    throw new Error(`flock ended with ${code} before it held ${folder}.lock`);
  });
  await Promise.race([once(holder.stdout, 'data'), ended]);
  try {
    return await work();
  } finally {
    holder.stdin.end();
    await ended.catch(() => {});
  }
}
