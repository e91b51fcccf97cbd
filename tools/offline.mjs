#!/usr/bin/env node
/**
 * `npm run offline [-- --to FILE] [--gpu] [--requirements FILE]`: packs one archive with which a machine without a network installs tony-ts.
 * The machine needs neither Node.js nor npm. The archive contains, below the folder in which it is unpacked:
 *   bin/tony-ts                   starts the command with the runtime's Node.js
 *   lib/node_modules/tony-ts/     the package, at the same place as after `npm install --global --prefix`
 *   cache/                        a folder for TONY_CACHE_DIR with the runtime (with --gpu: also the one with CUDA) and TensorBoard
 *   docs/                         the site of the documents
 *   wheels/                       with --requirements: the wheels of a pip requirements file
 */
import { execFileSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import description from '../package.json' with { type: 'json' };
import { buildAll } from './build.mjs';
import { ensureInstalled, ROOT, runInherited } from './install.mjs';

const { values: options } = parseArgs({
  options: {
    to: { type: 'string', default: `tony-ts-${description.version}-linux-${process.arch}.tar.gz` },
    gpu: { type: 'boolean', default: false },
    requirements: { type: 'string' },
  },
});
const target = path.resolve(options.to);
const requirements = options.requirements === undefined ? null : path.resolve(options.requirements);

/** A job that makes the command download TensorBoard, and shows that the staged files run. */
const JOB =
  'name: offline\nframework: none\nruntime: system\nsource: null\ncommand: "true"\ntensorboard: true\nroles: {worker: {resources: {memory: 256m}}}\n';

await mkdir(path.join(ROOT, '.cache'), { recursive: true });
const stage = await mkdtemp(path.join(ROOT, '.cache', 'offline-'));
try {
  const isBuilt = await ensureInstalled();
  if (!isBuilt) {
    await buildAll();
  }
  const installed = path.join(stage, 'lib', 'node_modules', 'tony-ts');
  await stagePackage(installed);
  const key = await stageCache(path.join(stage, 'cache'), installed);
  await stageCommand(path.join(stage, 'bin'), key);
  await runInherited(path.join(ROOT, 'node_modules', '.bin', 'vitepress'), ['build', 'tools/site']);
  await cp(path.join(ROOT, '.cache', 'site'), path.join(stage, 'docs'), { recursive: true });
  if (requirements !== null) {
    const wheels = path.join(stage, 'wheels');
    await runInherited('python3', ['-m', 'pip', 'download', '--only-binary=:all:', '--dest', wheels, '--requirement', requirements]);
  }
  await chmod(stage, 0o755);
  await runInherited('tar', ['czf', target, '--owner=0', '--group=0', '--exclude=.lock-*', '-C', stage, '.']);
  console.log(`\nwrote ${target}`);
} finally {
  await rm(stage, { recursive: true, force: true });
}

/**
 * Unpacks the package as npm would install it, without its dependencies: the bundles in dist/ contain them, and the runtime TensorFlow.js.
 * @param {string} folder
 */
async function stagePackage(folder) {
  await mkdir(folder, { recursive: true });
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', stage], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const archive = path.join(stage, packed.trim());
  await runInherited('tar', ['xzf', archive, '-C', folder, '--strip-components=1']);
  await rm(archive);
}

/**
 * @param {string} cache
 * @param {string} installed folder of the package
 * @returns {Promise<string>} name of the runtime's folder in `cache`
 */
async function stageCache(cache, installed) {
  const command = path.join(installed, 'dist', 'tony-ts.js');
  const local = path.join(stage, 'local');
  const env = { ...process.env, TONY_CACHE_DIR: cache, TONY_LOCAL_DIR: local };
  await runInherited(process.execPath, [command, 'runtime', 'build'], { env });
  const [key = ''] = await readdir(path.join(cache, 'runtime')).then((names) => names.filter((name) => !name.startsWith('.')));
  if (options.gpu) {
    await runInherited(process.execPath, [command, 'runtime', 'build', '--gpu'], { env });
  }
  const job = path.join(stage, 'job.yaml');
  await writeFile(job, JOB);
  await runInherited(process.execPath, [command, 'submit', '--local', '--conf', job], { env });
  await Promise.all([rm(job), rm(local, { recursive: true, force: true })]);
  return key;
}

/**
 * @param {string} folder
 * @param {string} key name of the runtime's folder
 */
async function stageCommand(folder, key) {
  await mkdir(folder);
  const file = path.join(folder, 'tony-ts');
  const script = [
    '#!/bin/sh',
    'here=$(dirname "$(readlink -f "$0")")/..',
    `exec "$here/cache/runtime/${key}/tree/bin/node" "$here/lib/node_modules/tony-ts/dist/tony-ts.js" "$@"`,
    '',
  ];
  await writeFile(file, script.join('\n'));
  await chmod(file, 0o755);
}
