#!/usr/bin/env node
/** `npm run bench -- NAME [ARGUMENT ...]`: builds the package, then bundles benchmarks/NAME.ts and runs it. */
import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { ensureInstalled, ROOT } from './install.mjs';

const [name, ...args] = process.argv.slice(2);
const benchmarks = (await readdir(path.join(ROOT, 'benchmarks')))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .map((file) => path.basename(file, '.ts'));
if (name === undefined || !benchmarks.includes(name)) {
  console.error(`Usage: npm run bench -- NAME [ARGUMENT ...], where NAME is one of: ${benchmarks.join(', ')}`);
  process.exit(2);
}

await ensureInstalled();
const { buildAll, bundle } = await import('./build.mjs');
await buildAll({ types: false });
const program = path.join(ROOT, '.cache', 'benchmarks', `${name}.mjs`);
await bundle({ source: `benchmarks/${name}.ts`, output: program, external: ['@tensorflow/*', 'esbuild', 'playwright-core'] }, program);
const child = spawn(process.execPath, [program, ...args], { cwd: ROOT, stdio: 'inherit' });
// Ctrl-C sends the signal to both processes. This process waits until the benchmark has cleaned up.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {});
}
child.once('close', (code) => {
  process.exitCode = code ?? 1;
});
