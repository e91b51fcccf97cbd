import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import type { CorrectnessCase, CorrectnessResult, CorrectnessStart } from './correctness-program.ts';
import { freePort } from './free-port.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Runs the cases on so many ranks, each a process of its own.
 * @param env of the processes, and the Node that runs them.
 * @returns for each case the results of all ranks.
 */
export async function runGang(
  worldSize: number,
  cases: readonly CorrectnessCase[],
  { node = process.execPath, env = process.env }: { readonly node?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<CorrectnessResult[][]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'correctness-'));
  try {
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
    await build({
      entryPoints: { program: 'training/testing/correctness-program.ts', 'sync-ring-worker': 'training/sync-ring-worker.ts' },
      absWorkingDir: ROOT,
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['@tensorflow/*'],
      outdir: folder,
      outExtension: { '.js': '.mjs' },
      banner: { js: "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);" },
      logLevel: 'error',
    });
    const ports = await Promise.all(Array.from({ length: worldSize }, freePort));
    const key = randomBytes(32).toString('base64');
    const outputs = await Promise.all(
      ports.map(async (_, rank) => {
        const start: CorrectnessStart = { rank, ports, key, cases };
        const command = [path.join(folder, 'program.mjs'), JSON.stringify(start)];
        const { stdout } = await promisify(execFile)(node, command, { env, timeout: 300_000 });
        return stdout
          .split('\n')
          .filter((line) => line.startsWith('{'))
          .map((line) => JSON.parse(line) as CorrectnessResult);
      }),
    );
    return cases.map((_, index) => outputs.map((results) => results[index] as CorrectnessResult));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
