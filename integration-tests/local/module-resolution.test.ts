import { copyFile, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { execute } from '../execute.ts';
import { NODE_MAJORS, nodeOfMajor } from '../node-versions.ts';

/*
 * Module resolution of `import` and `require` in user programs. Small stubs replace the large packages. The container's runtime is a
 * symbolic link, as on YARN.
 */
const REGISTER = path.resolve(import.meta.dirname, '..', '..', 'dist', 'container', 'register.mjs');

let node: string;
let container: string;
let source: string;

async function files(root: string, contents: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(contents)) {
    await mkdir(path.dirname(path.join(root, name)), { recursive: true });
    await writeFile(path.join(root, name), content);
  }
}

/** CommonJS modules, in which each copy has its own classes, as in the real tfjs. */
function tfjs(where: string): Record<string, string> {
  const folder = `${where}/node_modules/@tensorflow/tfjs`;
  return {
    [`${folder}/package.json`]: '{"name":"@tensorflow/tfjs","version":"4.22.0","main":"main.js"}',
    [`${folder}/main.js`]: `exports.Tensor = class Tensor {}; exports.from = '${where}';`,
  };
}

function tfjsNode(where: string, addon: boolean): Record<string, string> {
  const folder = `${where}/node_modules/@tensorflow/tfjs-node`;
  return {
    [`${folder}/package.json`]: '{"name":"@tensorflow/tfjs-node","version":"4.22.0","main":"main.js"}',
    [`${folder}/main.js`]: `const util = require('util'); const tf = require('@tensorflow/tfjs');
      if (util.isNullOrUndefined(0) || !util.isArray([])) throw new Error('util');
      exports.Tensor = tf.Tensor; exports.addon = '${where}';`,
    ...(addon && { [`${folder}/lib/napi-v8/tfjs_binding.node`]: '' }),
  };
}

beforeAll(async () => {
  container = await realpath(await mkdtemp(path.join(os.tmpdir(), 'register-')));
  await files(container, {
    ...tfjs('cache/12'),
    ...tfjsNode('cache/12', true),
    'tony/training.mjs': "import tf from '@tensorflow/tfjs'; import node from '@tensorflow/tfjs-node'; export { tf, node };",
  });
  await symlink('cache/12', path.join(container, 'runtime'));
  await copyFile(REGISTER, path.join(container, 'tony', 'register.mjs'));
});

beforeEach(async () => {
  source = path.join(container, 'source');
  await rm(source, { recursive: true, force: true });
  await mkdir(source);
});

afterAll(() => rm(container, { recursive: true }));

async function run(program: string, options: { cwd?: string } = {}): Promise<string> {
  const env = { ...process.env, ...programEnvironment(path.join(container, 'tony'), path.join(container, 'runtime'), process.env) };
  const { stdout, stderr } = await execute(node, [program], { cwd: options.cwd ?? source, env });
  expect(stderr).toBe('');
  return stdout.trim();
}

const MODULE = `
  import tf from '@tensorflow/tfjs';
  import { tf as theirs, node } from 'tony-ts/training';
  console.log(tf.from, theirs === tf, node.Tensor === tf.Tensor, node.addon);
`;
const COMMON_JS = `
  const tf = require('@tensorflow/tfjs');
  const node = require('@tensorflow/tfjs-node');
  import('tony-ts/training').then(({ tf: theirs }) => console.log(tf.from, theirs === tf, node.Tensor === tf.Tensor, node.addon));
`;

describe.each(NODE_MAJORS)('Node %i', (major) => {
  beforeAll(async () => {
    node = await nodeOfMajor(major);
  });

  describe.each([
    ['an ES module', 'train.mjs', MODULE],
    ['a CommonJS script', 'train.cjs', COMMON_JS],
  ])('%s', (_kind, name, program) => {
    it("uses the runtime's TensorFlow.js when it has none of its own", async () => {
      await files(source, { [name]: program });
      expect(await run(name)).toBe('cache/12 true true cache/12');
    });

    it('uses its own TensorFlow.js throughout the process', async () => {
      await files(source, { [name]: program });
      await files(container, tfjs('source'));
      expect(await run(name)).toBe('source true true cache/12');
    });

    it('uses its own tfjs-node only if the addon of that package was built', async () => {
      await files(source, { [name]: program });
      await files(container, { ...tfjs('source'), ...tfjsNode('source', true) });
      expect(await run(name)).toBe('source true true source');
      await rm(path.join(source, 'node_modules/@tensorflow/tfjs-node/lib'), { recursive: true });
      expect(await run(name)).toBe('source true true cache/12');
    });

    it('resolves packages from its own folder, not from the working directory', async () => {
      await files(source, { [`deep/${name}`]: program });
      await files(container, tfjs('source/deep'));
      expect(await run(path.join('source', 'deep', name), { cwd: container })).toBe('source/deep true true cache/12');
    });
  });

  describe('a program that ends', () => {
    it.each([
      ['a missing module', { 'main.mjs': "import './none.mjs';" }, true],
      ['a syntax error in an ES module', { 'main.mjs': 'const a = ;' }, true],
      ['a syntax error in an imported module', { 'main.mjs': "import './other.mjs';", 'other.mjs': 'const a = ;' }, true],
      ['a syntax error in a CommonJS module', { 'main.mjs': "import './other.cjs';", 'other.cjs': 'const a = ;' }, true],
      ['a missing export', { 'main.mjs': "import { none } from 'node:fs';" }, true],
      ['text that is not JSON', { 'main.mjs': "JSON.parse('{');" }, false],
      ['another error', { 'main.mjs': "throw new TypeError('a');" }, false],
    ])('because of %s reports whether a restart would repeat the failure', async (_, modules, isPermanent) => {
      const [taskFile, reportFile] = [path.join(source, 'task.json'), path.join(source, 'reports')];
      await files(source, { ...modules, 'task.json': JSON.stringify({ reportFile }), reports: '' });
      const env = {
        ...programEnvironment(path.join(container, 'tony'), path.join(container, 'runtime'), process.env),
        TONY_TASK_FILE: taskFile,
      };
      await expect(execute(node, ['main.mjs'], { cwd: source, env: { ...process.env, ...env } })).rejects.toThrow();
      expect(await readFile(reportFile, 'utf8')).toBe(isPermanent ? '{"type":"permanent-failure"}\n' : '');
    });
  });

  describe('the hooks', () => {
    it('work in worker threads', async () => {
      await files(source, {
        'main.mjs': "import { Worker } from 'node:worker_threads'; new Worker(new URL('worker.mjs', import.meta.url));",
        'worker.mjs': MODULE,
      });
      expect(await run('main.mjs')).toBe('cache/12 true true cache/12');
    });

    it("keep Node's error messages for missing modules, and do not affect Node's own modules", async () => {
      await files(source, {
        'main.mjs': `
        import { createRequire } from 'node:module';
        import fs from 'fs';
        const require = createRequire(import.meta.url);
        const words = [require('fs') === fs, require('node:os') !== undefined];
        for (const load of [() => import('no-such-package'), async () => require('no-such-package'), () => import('./no-such-file.mjs')]) {
          await load().catch((error) => words.push(error.code, error.message.split('\\n')[0].replace(import.meta.dirname, '')));
        }
        console.log(words.join('|'));
      `,
      });
      expect(await run('main.mjs')).toBe(
        [
          ...[true, true],
          ...['ERR_MODULE_NOT_FOUND', "Cannot find package 'no-such-package' imported from /main.mjs"],
          ...['MODULE_NOT_FOUND', "Cannot find module 'no-such-package'"],
          ...['ERR_MODULE_NOT_FOUND', `Cannot find module '/no-such-file.mjs' imported from ${source}/main.mjs`],
        ].join('|'),
      );
    });
  });
});
