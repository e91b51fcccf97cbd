import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { extract } from 'tar';
import { TonyError } from '../../platform/errors.ts';
import { compileAddon } from './addon.ts';
import { packFolder } from './archive.ts';
import { downloadNode, downloadWheel, installPackages } from './downloads.ts';
import { TFJS_VERSION, type Wheel } from './pins.ts';
import { checkPrerequisites } from './prerequisites.ts';
import { pruneModules } from './prune.ts';
import type { Recipe } from './recipe.ts';
import { runTool, ToolFailure } from './tool.ts';
import { unpackWheel } from './wheel.ts';

export type Progress = (line: string) => void;

/** The content of a runtime's runtime.json. */
export interface RuntimeDescription {
  readonly key: string;
  readonly architecture: string;
  readonly node: string;
  readonly tensorflowJs: string;
  readonly libtensorflow: string;
  readonly gpu: boolean;
  /** The SHA-256 of runtime.tar.gz. */
  readonly sha256: string;
  readonly size: number;
}

/** The headers that the addon's sources include, with their own includes. */
const HEADERS = [
  ...[
    'c_api',
    'c_api_macros',
    'tf_attrtype',
    'tf_buffer',
    'tf_datatype',
    'tf_file_statistics',
    'tf_status',
    'tf_tensor',
    'tf_tstring',
    'eager/c_api',
  ].map((name) => `tensorflow/c/${name}.h`),
  ...['tensorflow/core', 'tsl'].flatMap((part) => [`${part}/platform/ctstring.h`, `${part}/platform/ctstring_internal.h`]),
  'xla/tsl/c/tsl_status.h',
];
const LIBRARIES = ['libtensorflow_cc.so.2', 'libtensorflow_framework.so.2'];

/**
 * Builds a runtime in `folder` from package registries alone (see downloads.ts):
 *
 *   tree/bin/node
 *   tree/node_modules/@tensorflow/{tfjs, tfjs-*, tfjs-node or tfjs-node-gpu, tfjs-backend-wasm}
 *   tree/licenses/
 *   runtime.tar.gz     the tree
 *   runtime.json       a RuntimeDescription
 *
 * Compiles tfjs-node's addon against the TensorFlow library of a Python wheel. Before packing, the finished tree must multiply two
 * matrices.
 * @throws TonyError RUNTIME_*
 */
export async function buildRuntime(recipe: Recipe, folder: string, progress: Progress): Promise<RuntimeDescription> {
  const started = performance.now();
  const say: Progress = (line) => progress(`[${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s] ${line}`);
  const scratch = path.join(folder, 'scratch');
  const tree = path.join(folder, 'tree');
  await mkdir(scratch, { recursive: true });
  await mkdir(path.join(tree, 'licenses'), { recursive: true });

  await checkPrerequisites(scratch, new AbortController().signal);

  const modules = path.join(scratch, 'npm', 'node_modules');
  const addonPackage = path.join(modules, '@tensorflow', recipe.gpu ? 'tfjs-node-gpu' : 'tfjs-node');
  const headers = path.join(scratch, 'include');
  const nodeFolder = path.join(scratch, 'node');
  const wheelScratch = path.join(scratch, 'tensorflow');

  const { tensorflow, nvidia } = recipe.libtensorflow;
  say(`getting Node ${recipe.node.version}, TensorFlow.js ${TFJS_VERSION} and ${[tensorflow, ...nvidia].map(nameOf).join(', ')}`);
  await together(
    async (signal) => {
      await installPackages(path.join(scratch, 'npm'), signal);
      say(`TensorFlow.js ${TFJS_VERSION} is here`);
    },
    async (signal) => {
      const tarball = await downloadNode(recipe.node, path.join(scratch, 'node-package'), signal);
      await mkdir(nodeFolder, { recursive: true });
      const wanted = /^package\/(bin\/node|LICENSE|include\/node\/.*)$/;
      await extract({ file: tarball, cwd: nodeFolder, strip: 1, filter: (name) => wanted.test(name) });
      await rm(path.join(scratch, 'node-package'), { recursive: true });
      say(`Node ${recipe.node.version} is here`);
    },
    async (signal) => {
      await fromWheel(tensorflow, recipe, wheelScratch, signal, say, (name) => {
        const file = name.replace(/^.*?\btensorflow\//, '');
        if (LIBRARIES.includes(file)) return `lib/${file}`;
        if (file === 'include/LICENSE') return file;
        return file.startsWith('include/') && HEADERS.includes(file.slice('include/'.length)) ? file : null;
      });
      // In sequence: large downloads use the full bandwidth anyway, and each wheel is deleted after it is unpacked.
      for (const wheel of nvidia) {
        await fromWheel(wheel, recipe, wheelScratch, signal, say, (name) =>
          /^nvidia\/.*\/(lib|nvvm\/libdevice)\/.*\.(so|bc)(\.|$)/.test(name) ? name : null,
        );
      }
    },
  );

  const libraries = path.join(wheelScratch, 'lib');
  await together(
    async (signal) => {
      for (const file of LIBRARIES) await strip(path.join(libraries, file), signal);
    },
    async (signal) => strip(path.join(nodeFolder, 'bin', 'node'), signal),
  );
  say('libraries stripped');
  await rename(path.join(wheelScratch, 'include'), headers);
  await mkdir(path.join(addonPackage, 'deps'), { recursive: true });
  await rename(libraries, path.join(addonPackage, 'deps', 'lib'));
  // libtensorflow_cc looks for CUDA's libraries in $ORIGIN/../nvidia.
  if (nvidia.length > 0) await rename(path.join(wheelScratch, 'nvidia'), path.join(addonPackage, 'deps', 'nvidia'));
  await together((signal) =>
    compileAddon({
      package: addonPackage,
      nodeHeaders: path.join(nodeFolder, 'include', 'node'),
      tensorflowHeaders: headers,
      scratch,
      signal,
    }),
  );
  say('addon compiled');

  await mkdir(path.join(tree, 'bin'), { recursive: true });
  await rename(path.join(nodeFolder, 'bin', 'node'), path.join(tree, 'bin', 'node'));
  await rename(path.join(nodeFolder, 'LICENSE'), path.join(tree, 'licenses', 'node'));
  await rename(path.join(headers, 'LICENSE'), path.join(tree, 'licenses', 'tensorflow'));
  await rm(path.join(modules, '@tensorflow', recipe.gpu ? 'tfjs-node' : 'tfjs-node-gpu'), { recursive: true });
  await pruneModules(modules);
  await rename(modules, path.join(tree, 'node_modules'));
  await rm(scratch, { recursive: true });
  await prove(tree, recipe);
  say('it computes');

  const archive = await packFolder(tree, path.join(folder, 'runtime.tar.gz'));
  say(`packed: ${(archive.size / 1e6).toFixed(0)} MB`);
  const description: RuntimeDescription = {
    key: recipe.key,
    architecture: recipe.architecture,
    node: recipe.node.version,
    tensorflowJs: TFJS_VERSION,
    libtensorflow: nameOf(tensorflow),
    gpu: recipe.gpu,
    ...archive,
  };
  await writeFile(path.join(folder, 'runtime.json'), `${JSON.stringify(description, null, 2)}\n`);
  return description;
}

function nameOf(wheel: Wheel): string {
  return `${wheel.name} ${wheel.version}`;
}

async function fromWheel(
  wheel: Wheel,
  recipe: Recipe,
  folder: string,
  signal: AbortSignal,
  say: Progress,
  place: (name: string) => string | null,
): Promise<void> {
  const download = path.join(folder, 'wheel');
  const file = await downloadWheel(wheel, recipe.architecture, download, signal);
  say(`${nameOf(wheel)} is here (${((await stat(file)).size / 1e6).toFixed(0)} MB)`);
  await unpackWheel(file, folder, place);
  await rm(download, { recursive: true });
}

/** Runs jobs concurrently. If one fails, aborts the others and waits for them, so that none writes to a folder that is being removed. */
async function together(...jobs: readonly ((signal: AbortSignal) => Promise<void>)[]): Promise<void> {
  const abort = new AbortController();
  let failure: { readonly error: unknown } | null = null;
  await Promise.all(
    jobs.map(async (job) => {
      try {
        await job(abort.signal);
      } catch (error) {
        failure ??= { error };
        abort.abort();
      }
    }),
  );
  if (failure !== null) throw (failure as { readonly error: unknown }).error;
}

/** Removes debug symbols, a quarter of the libraries' size. Without `strip` on this machine, the runtime is larger. */
async function strip(file: string, signal: AbortSignal): Promise<void> {
  try {
    await runTool({ command: 'strip', args: ['--strip-unneeded', file], cwd: path.dirname(file), signal, timeoutMs: 10 * 60_000 });
  } catch (error) {
    if (signal.aborted || !(error instanceof TonyError && error.code === 'RUNTIME_TOOL_MISSING')) throw error;
  }
}

const PROOF = `
  const util = require('node:util');
  util.isNullOrUndefined = (value) => value == null;
  util.isArray = Array.isArray;
  const tf = require(process.argv[1]);
  const product = tf.matMul(tf.tensor2d([[1, 2], [3, 4]]), tf.tensor2d([[5, 6], [7, 8]]));
  if (tf.getBackend() !== 'tensorflow' || product.dataSync().join() !== '19,22,43,50') throw new Error('wrong product');
`;

async function prove(tree: string, recipe: Recipe): Promise<void> {
  const addonPackage = path.join(tree, 'node_modules', '@tensorflow', recipe.gpu ? 'tfjs-node-gpu' : 'tfjs-node');
  try {
    await runTool({
      command: path.join(tree, 'bin', 'node'),
      args: ['-e', PROOF, addonPackage],
      cwd: tree,
      env: { TF_CPP_MIN_LOG_LEVEL: '2', NODE_OPTIONS: '' },
      signal: new AbortController().signal,
      timeoutMs: 120_000,
    });
  } catch (error) {
    if (!(error instanceof ToolFailure)) throw error;
    throw new TonyError('RUNTIME_BROKEN', `the runtime that was just built does not compute: ${error.message}\n${error.lastLines(15)}`, {
      hint: 'This machine may lack CPU instructions (AVX) that TensorFlow needs, or memory; the lines above say more.',
      cause: error,
    });
  }
}
