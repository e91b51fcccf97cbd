import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { asOnlyBuilder, cacheFolder, openBuildFolder, publish } from './cache.ts';

let runtimes: string;

beforeEach(async () => {
  runtimes = path.join(await mkdtemp(path.join(os.tmpdir(), 'cache-')), 'runtime');
});

afterEach(() => rm(path.dirname(runtimes), { recursive: true }));

async function endedProcess(): Promise<number> {
  const child = spawn('true');
  await once(child, 'exit');
  return child.pid ?? 0;
}

describe('cacheFolder', () => {
  it('uses TONY_CACHE_DIR, then XDG_CACHE_HOME, then the home folder', () => {
    expect(cacheFolder({ TONY_CACHE_DIR: '/c', XDG_CACHE_HOME: '/x' }, '/home/alice')).toBe('/c');
    expect(cacheFolder({ XDG_CACHE_HOME: '/x' }, '/home/alice')).toBe('/x/tony-ts');
    expect(cacheFolder({ XDG_CACHE_HOME: 'relative' }, '/home/alice')).toBe('/home/alice/.cache/tony-ts');
    expect(cacheFolder({}, '/home/alice')).toBe('/home/alice/.cache/tony-ts');
  });
});

describe('asOnlyBuilder', () => {
  it('runs one builder at a time, and reports its process ID to the callers that wait', async () => {
    let inside = 0;
    let most = 0;
    const waitedFor: number[] = [];
    const build = () =>
      asOnlyBuilder(
        runtimes,
        'key',
        (pid) => waitedFor.push(pid),
        async () => {
          most = Math.max(most, ++inside);
          await new Promise((resolve) => setImmediate(resolve));
          inside--;
          return 'built';
        },
      );
    expect(await Promise.all([build(), build(), build()])).toEqual(['built', 'built', 'built']);
    expect(most).toBe(1);
    expect(waitedFor.every((pid) => pid === process.pid)).toBe(true);
    expect(await readdir(runtimes)).toEqual([]);
  });

  it('releases the lock after a failure', async () => {
    const never = () => expect.unreachable();
    await expect(asOnlyBuilder(runtimes, 'key', never, () => Promise.reject(new Error('no compiler')))).rejects.toThrow('no compiler');
    expect(await asOnlyBuilder(runtimes, 'key', never, () => Promise.resolve(1))).toBe(1);
  });

  it('does not wait for a builder that died', async () => {
    await mkdir(runtimes, { recursive: true });
    await writeFile(path.join(runtimes, '.lock-key'), `${os.hostname()} ${await endedProcess()}`);
    expect(
      await asOnlyBuilder(
        runtimes,
        'key',
        () => expect.unreachable(),
        () => Promise.resolve(1),
      ),
    ).toBe(1);
  });
});

describe('build folders', () => {
  it('are published completely, and only those of the first builder', async () => {
    const [one, two] = [await openBuildFolder(runtimes), await openBuildFolder(runtimes)];
    await writeFile(path.join(one, 'a'), '1');
    await writeFile(path.join(two, 'a'), '2');
    expect(await publish(one, path.join(runtimes, 'key'))).toBe(true);
    expect(await publish(two, path.join(runtimes, 'key'))).toBe(false);
  });

  it('are removed by the next build if the builder has died, and kept if it may be alive', async () => {
    const dead = path.join(runtimes, `.build-${os.hostname()}-${await endedProcess()}-0a`);
    const elsewhere = path.join(runtimes, '.build-another.host-1-0b');
    await mkdir(path.join(dead, 'tree'), { recursive: true });
    await mkdir(elsewhere, { recursive: true });
    const mine = await openBuildFolder(runtimes);
    expect((await readdir(runtimes)).sort()).toEqual([path.basename(elsewhere), path.basename(mine)].sort());
  });
});
