#!/usr/bin/env node
/**
 * `npm run bench -- NAME [ARGUMENT ...]`: builds the package, then bundles benchmarks/NAME.ts and runs it. `npm run bench -- all
 * [ARGUMENT ...]` runs the benchmarks of speed and memory one after the other. With `--record`, the results replace those in
 * docs/performance.md.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { ensureInstalled, ROOT } from './install.mjs';
import { record } from './performance.mjs';

/** `equality` compares results instead of measuring speed. */
const NOT_IN_ALL = ['equality'];

const [name, ...words] = process.argv.slice(2);
const isRecorded = words.includes('--record');
const args = [...words.filter((word) => word !== '--record'), ...(isRecorded ? ['--output', 'json'] : [])];
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
  const child = spawn(process.execPath, [program, ...args], { cwd: ROOT, stdio: ['inherit', isRecorded ? 'pipe' : 'inherit', 'inherit'] });
  const closed = once(child, 'close');
  const figures = [];
  if (child.stdout !== null) {
    for await (const line of createInterface(child.stdout)) {
      console.log(line);
      figures.push(JSON.parse(line));
    }
  }
  const [code] = await closed;
  if (isRecorded && code === 0) {
    const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
    await record(benchmark, { date: new Date().toISOString().slice(0, 10), commit, machine: machine(), figures });
  }
  return code ?? 1;
}

function machine() {
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${gib} GiB of memory, Node.js ${process.versions.node}`;
}
