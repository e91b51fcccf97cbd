import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { ensureRuntime, findRuntime, type Runtime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { execute } from '../execute.ts';
import { NODE_MAJORS, nodeOfMajor } from '../node-versions.ts';

const BUNDLES = path.resolve(import.meta.dirname, '..', '..', 'dist', 'container');
const COMMAND = path.resolve(BUNDLES, '..', 'tony-ts.js');
const FEATURES = path.join(import.meta.dirname, '..', 'programs', 'tensorflow-features.mjs');

let runtime: Runtime;

beforeAll(async () => {
  runtime = await ensureRuntime((line) => console.log(line));
  // The first run downloads the runtime, which takes longer than the default time limit.
  for (const major of NODE_MAJORS) {
    await nodeOfMajor(major);
  }
});

async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(os.tmpdir(), 'runtime-test-'));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

async function run(node: string, words: readonly string[], options: { bundles?: string } = {}): Promise<string[]> {
  const { PATH, HOME } = process.env;
  const env = programEnvironment(options.bundles ?? BUNDLES, runtime.tree, { PATH, HOME });
  const { stdout, stderr } = await execute(node, words, {
    cwd: path.dirname(words[0] as string),
    env,
  });
  expect(stderr).toBe('');
  return stdout.trim().split('\n');
}

describe.each(NODE_MAJORS)('Node %i', (major) => {
  // TensorFlow's library computes the layers, whatever Node.js calls it.
  const features = major === 22 ? [] : ['optimizers', 'convolution', 'saving', 'images', 'summaries', 'customLoop', 'workers'];

  it(`trains with ${features.length === 0 ? 'every feature' : features.join(', ')} of tfjs-node that the runtime includes`, async () => {
    const root = await folder();
    const program = path.join(root, 'features.mjs');
    await copyFile(FEATURES, program);
    const lines = await run(await nodeOfMajor(major), [program, ...features]);
    expect(lines.filter((line) => !line.endsWith(' ok'))).toEqual(['done']);
    expect(lines).toHaveLength(features.length === 0 ? 14 : features.length + 2);
  });

  it('shares one TensorFlow.js between a script and the training library', async () => {
    const root = await folder();
    const bundles = path.join(root, 'tony');
    await mkdir(bundles);
    await copyFile(path.join(BUNDLES, 'register.mjs'), path.join(bundles, 'register.mjs'));
    await writeFile(path.join(bundles, 'training.mjs'), "export * as tf from '@tensorflow/tfjs'; await import('@tensorflow/tfjs-node');");
    const types = major > 20;
    const program = path.join(root, types ? 'train.ts' : 'train.mjs');
    await writeFile(
      program,
      `import * as tf from '@tensorflow/tfjs';
       import { tf as theirs } from 'tony-ts/training';
       const units${types ? ': number' : ''} = 3;
       console.log(tf.getBackend(), tf.Tensor === theirs.Tensor, tf.matMul(tf.ones([units, 2]), tf.ones([2, units])).sum().dataSync()[0]);`,
    );
    expect(await run(await nodeOfMajor(major), [program], { bundles })).toEqual(['tensorflow true 18']);
  });
});

describe('the runtime', () => {
  it('is reused without another build', async () => {
    const lines: string[] = [];
    expect(await ensureRuntime((line) => lines.push(line))).toEqual(runtime);
    expect(await findRuntime()).toEqual(runtime);
    expect(lines).toEqual([]);
  });

  // NodeManagers unpack the archive in the tests on a cluster.
  it('works in an empty environment, reached through a symbolic link', async () => {
    const root = await folder();
    await symlink(runtime.tree, path.join(root, 'runtime'));
    expect((await readdir(runtime.tree)).sort()).toEqual(['bin', 'licenses', 'node_modules']);
    const program = path.join(root, 'train.ts');
    await writeFile(program, "import tf from '@tensorflow/tfjs-node'; console.log(tf.getBackend(), tf.sum([1, 2, 3]).dataSync()[0]);");
    const env = programEnvironment(BUNDLES, path.join(root, 'runtime'), {});
    const { stdout } = await execute(path.join(root, 'runtime', 'bin', 'node'), [program], { cwd: root, env });
    expect(stdout).toBe('tensorflow 6\n');
  });

  it('contains only the expected TensorFlow.js packages', async () => {
    expect((await readdir(path.join(runtime.tree, 'node_modules', '@tensorflow'))).sort()).toEqual(
      [
        'tfjs',
        'tfjs-backend-cpu',
        'tfjs-backend-wasm',
        'tfjs-backend-webgl',
        'tfjs-converter',
        'tfjs-core',
        'tfjs-data',
        'tfjs-layers',
        'tfjs-node',
      ].sort(),
    );
  });

  it('does not appear when its build is killed', async () => {
    const root = await folder();
    const env = { ...process.env, TONY_CACHE_DIR: path.join(root, 'cache') };
    // The command runs in its own process group. The test signals the whole group, as a terminal or a shutdown does.
    const build = spawn(process.execPath, [COMMAND, 'runtime', 'build'], { env, detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
    const closed = once(build, 'close');
    const [line] = (await once(build.stderr, 'data')) as [Buffer];
    process.kill(-(build.pid ?? Number.NaN), 'SIGKILL');
    await closed;
    expect(line.toString()).toContain('downloading Node');
    expect(await readdir(path.join(root, 'cache', 'runtime'))).toEqual([
      expect.stringMatching(/^\.build-/),
      expect.stringMatching(/^\.lock-/),
    ]);
    await expect(execute(process.execPath, [COMMAND, 'runtime', 'path'], { env })).rejects.toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('There is no runtime with Node 22 yet'),
    });
  });

  it('fails to build with a clear message in a folder that is not writable', async () => {
    const root = await folder();
    await writeFile(path.join(root, 'cache'), 'a file, and no folder');
    const env = { ...process.env, TONY_CACHE_DIR: path.join(root, 'cache') };
    await expect(execute(process.execPath, [COMMAND, 'runtime', 'build'], { env })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/cannot build the runtime in .*\n.*TONY_CACHE_DIR/),
    });
  });

  it('reports all missing tools before it starts a build', async () => {
    const root = await folder();
    await writeFile(path.join(root, 'npm'), '#!/bin/sh\n', { mode: 0o755 });
    const env = { HOME: root, PATH: root, CXX: 'no-such-compiler' };
    await expect(execute(process.execPath, [COMMAND, 'runtime', 'build'], { env })).rejects.toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/lacks python3 with pip .* and the C\+\+ compiler no-such-compiler/),
    });
    expect(await readdir(path.join(root, '.cache', 'tony-ts', 'runtime'))).toEqual([]);
  });
});
