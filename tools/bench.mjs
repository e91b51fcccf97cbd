#!/usr/bin/env node
/**
 * `npm run bench -- NAME [ARGUMENT ...]`: builds the package, then bundles benchmarks/NAME.ts and runs it. `npm run bench -- all [--output
 * json]` runs the benchmarks that measure speed and memory one after the other; tools/performance.mjs makes a document of its output.
 */
import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { ensureInstalled, ROOT } from './install.mjs';

/** `equality` compares results instead of measuring speed. */
const NOT_IN_ALL = ['equality'];

const [name, ...args] = process.argv.slice(2);
/** Benchmarks, and not the modules that they share. */
const benchmarks = (await readdir(path.join(ROOT, 'benchmarks')))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => path.basename(file, '.ts'))
  .filter((each) => !['bench-cluster', 'figures', 'free-port', 'median'].includes(each));
if (name === undefined || ![...benchmarks, 'all'].includes(name)) {
  console.error(`Usage: npm run bench -- NAME [ARGUMENT ...], where NAME is one of: ${benchmarks.join(', ')}, all`);
  process.exit(2);
}

await ensureInstalled();
const { buildAll, bundle } = await import('./build.mjs');
await buildAll({ types: false });
let isInterrupted = false;
// Ctrl-C sends the signal to both processes. This process waits until the benchmark has cleaned up.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {
    isInterrupted = true;
  });
}
const failed = [];
for (const each of name === 'all' ? benchmarks.filter((known) => !NOT_IN_ALL.includes(known)) : [name]) {
  if ((await run(each)) !== 0) {
    failed.push(each);
  }
  if (isInterrupted) {
    break;
  }
}
if (failed.length > 0) {
  console.error(`failed: ${failed.join(', ')}`);
  process.exitCode = 1;
}

/**
 * Returns the exit code.
 * @param {string} benchmark
 * @returns {Promise<number>}
 */
async function run(benchmark) {
  const program = path.join(ROOT, '.cache', 'benchmarks', `${benchmark}.mjs`);
  await bundle(
    { source: `benchmarks/${benchmark}.ts`, output: program, external: ['@tensorflow/*', 'esbuild', 'playwright-core'] },
    program,
  );
  const child = spawn(process.execPath, [program, ...args], { cwd: ROOT, stdio: 'inherit' });
  return await new Promise((resolve) => child.once('close', (code) => resolve(code ?? 1)));
}
