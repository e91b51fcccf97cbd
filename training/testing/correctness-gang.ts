import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { WireSecurity } from '../../conf/job.ts';
import { bindPort } from './bind-port.ts';
import type { CorrectnessCase, CorrectnessResult, CorrectnessStart } from './correctness-program.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Runs the cases on `worldSize` ranks, each in its own process.
 * @param node the Node.js executable that runs the processes.
 * @param env the processes' environment variables.
 * @returns all ranks' results for each case.
 */
export async function runGang(
  worldSize: number,
  cases: readonly CorrectnessCase[],
  {
    node = process.execPath,
    env = process.env,
    security = 'none',
  }: { readonly node?: string; readonly env?: NodeJS.ProcessEnv; readonly security?: WireSecurity } = {},
): Promise<CorrectnessResult[][]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'correctness-'));
  try {
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
    await build({
      entryPoints: { program: 'training/testing/correctness-program.ts', 'sync-ring-worker': 'training/ring/sync-ring-worker.ts' },
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
    const bound = await Promise.all(Array.from({ length: worldSize }, () => bindPort(true)));
    const ports = bound.map(({ port }) => port);
    const key = randomBytes(32).toString('base64');
    const running = bound.map(({ fd }, rank) => {
      const start: CorrectnessStart = { rank, ports, key, security, cases };
      return outputOf(node, [path.join(folder, 'program.mjs'), JSON.stringify(start)], env, fd);
    });
    for (const { close } of bound) {
      close();
    }
    const outputs = (await Promise.all(running)).map((output) =>
      output
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as CorrectnessResult),
    );
    return cases.map((_, index) => outputs.map((results) => results[index] as CorrectnessResult));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function outputOf(node: string, command: readonly string[], env: NodeJS.ProcessEnv, listener: number): Promise<string> {
  const child = spawn(node, command, { env, timeout: 300_000, stdio: ['ignore', 'pipe', 'pipe', listener] });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'close'),
  ]);
  if (code !== 0) {
    throw new Error(`a rank's process exited with code ${code}: ${stderr}`);
  }
  return stdout;
}
