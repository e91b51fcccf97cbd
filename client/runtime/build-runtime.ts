import { existsSync } from 'node:fs';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { extract } from 'tar';
import { TonyError } from '../../platform/errors.ts';
import { sideBySide } from '../terminal/side-by-side.ts';
import { compileAddon } from './addon.ts';
import { packFolder } from './archive.ts';
import { downloadNode, downloadWheel, installPackages } from './downloads.ts';
import { TFJS_VERSION, type Wheel } from './pins.ts';
import { checkPrerequisites } from './prerequisites.ts';
import { type ProgressWriter, withElapsedTime } from './progress.ts';
import { isNeeded, pruneFolder } from './prune.ts';
import type { Recipe } from './recipe.ts';
import { runExplained, runTool } from './tool.ts';
import { unpackWheels } from './unpack-wheels.ts';

/** Content of runtime.json. */
export interface RuntimeDescription {
  readonly key: string;
  readonly architecture: string;
  readonly node: string;
  readonly tensorflowJs: string;
  readonly libtensorflow: string;
  readonly gpu: boolean;
  readonly sha256: string;
  readonly size: number;
}

/** Header files that the addon's sources include, directly or indirectly. */
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
const TENSORFLOW_FILES = [...LIBRARIES, 'include/LICENSE', ...HEADERS.map((header) => `include/${header}`)];
const WANTED_OF_TENSORFLOW = new RegExp(`^tensorflow/(${TENSORFLOW_FILES.join('|').replaceAll('.', '\\.')})$`);
const WANTED_OF_NVIDIA = /^nvidia\/.*\/(lib|nvvm\/libdevice)\/.*\.(so|bc)(\.|$)/;

/**
 * Builds a runtime in `folder`. All downloads come from package registries (see downloads.ts).
 *
 *   tree/bin/node
 *   tree/node_modules/@tensorflow/{tfjs, tfjs-*, tfjs-node or tfjs-node-gpu, tfjs-backend-wasm}
 *   tree/licenses/
 *   runtime.tar.gz     the tree
 *   runtime.json       a RuntimeDescription
 *
 * The tfjs-node addon is compiled against the TensorFlow library in a Python wheel. Before the archive is packed, a test program multiplies
 * two matrices with the runtime.
 * @throws TonyError RUNTIME_*
 */
export async function buildRuntime(recipe: Recipe, folder: string, progress: ProgressWriter): Promise<RuntimeDescription> {
  const say = withElapsedTime(progress);
  const tree = path.join(folder, 'tree');
  const parts = partsIn(path.join(folder, 'scratch'), recipe);
  await mkdir(parts.scratch, { recursive: true });
  await checkPrerequisites(parts.scratch);
  await getParts(recipe, parts, say);
  await buildAddon(parts, say);
  await arrangeTree(parts, tree);
  await rm(parts.scratch, { recursive: true });
  await prove(tree, recipe);
  say('verified: the runtime computes correctly');
  const archive = await packFolder(tree, path.join(folder, 'runtime.tar.gz'));
  say(`packed the archive: ${(archive.size / 1e6).toFixed(0)} MB`);
  const description: RuntimeDescription = {
    key: recipe.key,
    architecture: recipe.architecture,
    node: recipe.node.version,
    tensorflowJs: TFJS_VERSION,
    libtensorflow: nameOf(recipe.libtensorflow.tensorflow),
    gpu: recipe.gpu,
    ...archive,
  };
  await writeFile(path.join(folder, 'runtime.json'), `${JSON.stringify(description, null, 2)}\n`);
  return description;
}

interface Parts {
  readonly scratch: string;
  readonly node: string;
  readonly npm: string;
  readonly modules: string;
  /** Package that contains the addon: tfjs-node, or tfjs-node-gpu for GPUs. `otherAddon` is the package that the runtime omits. */
  readonly addon: string;
  readonly otherAddon: string;
  /** Folder for unpacked wheels: `tensorflow/` and, for GPUs, `nvidia/`. */
  readonly wheels: string;
  readonly tensorflow: string;
}

function partsIn(scratch: string, { gpu }: Recipe): Parts {
  const npm = path.join(scratch, 'npm');
  const modules = path.join(npm, 'node_modules');
  const [addon, otherAddon] = gpu ? ['tfjs-node-gpu', 'tfjs-node'] : ['tfjs-node', 'tfjs-node-gpu'];
  const wheels = path.join(scratch, 'wheels');
  return {
    scratch,
    node: path.join(scratch, 'node'),
    npm,
    modules,
    addon: path.join(modules, '@tensorflow', addon),
    otherAddon: path.join(modules, '@tensorflow', otherAddon),
    wheels,
    tensorflow: path.join(wheels, 'tensorflow'),
  };
}

async function getParts({ node, architecture, libtensorflow }: Recipe, parts: Parts, say: ProgressWriter): Promise<void> {
  const { tensorflow, nvidia } = libtensorflow;
  say(`downloading Node ${node.version}, TensorFlow.js ${TFJS_VERSION} and ${[tensorflow, ...nvidia].map(nameOf).join(', ')}`);
  const getPackages = async (signal: AbortSignal) => {
    await installPackages(parts.npm, signal);
    say(`downloaded TensorFlow.js ${TFJS_VERSION}`);
  };
  const getNode = async (signal: AbortSignal) => {
    const download = path.join(parts.scratch, 'node-package');
    const tarball = await downloadNode(node, download, signal);
    await mkdir(parts.node, { recursive: true });
    const wanted = /^package\/(bin\/node|LICENSE|include\/node\/.*)$/;
    await extract({ file: tarball, cwd: parts.node, strip: 1, filter: (name) => wanted.test(name) });
    await rm(download, { recursive: true });
    say(`downloaded Node ${node.version}`);
  };
  // To save disk space, download, unpack and delete the wheels one after the other.
  const getWheels = async (signal: AbortSignal) => {
    for (const wheel of [tensorflow, ...nvidia]) {
      const download = path.join(parts.scratch, 'wheel');
      const file = await downloadWheel(wheel, architecture, download, signal);
      say(`downloaded ${nameOf(wheel)} (${((await stat(file)).size / 1e6).toFixed(0)} MB)`);
      const wanted = wheel === tensorflow ? WANTED_OF_TENSORFLOW : WANTED_OF_NVIDIA;
      await unpackWheels([file], { folder: parts.wheels, wanted }, signal);
      await rm(download, { recursive: true });
    }
  };
  await sideBySide((signal) => [getPackages(signal), getNode(signal), getWheels(signal)]);
}

async function buildAddon(parts: Parts, say: ProgressWriter): Promise<void> {
  const deps = path.join(parts.addon, 'deps');
  const libraries = LIBRARIES.map((file) => path.join(parts.tensorflow, file));
  const stripInSequence = async (files: readonly string[], signal: AbortSignal) => {
    for (const file of files) {
      await strip(file, signal);
    }
  };
  await sideBySide((signal) => [stripInSequence(libraries, signal), strip(path.join(parts.node, 'bin', 'node'), signal)]);
  say('libraries stripped');
  await mkdir(path.join(deps, 'lib'), { recursive: true });
  for (const file of libraries) {
    await rename(file, path.join(deps, 'lib', path.basename(file)));
  }
  // libtensorflow_cc searches for the CUDA libraries in ../nvidia, relative to its own folder.
  const nvidia = path.join(parts.wheels, 'nvidia');
  if (existsSync(nvidia)) {
    await rename(nvidia, path.join(deps, 'nvidia'));
  }
  await compileAddon({
    package: parts.addon,
    nodeHeaders: path.join(parts.node, 'include', 'node'),
    tensorflowHeaders: path.join(parts.tensorflow, 'include'),
    scratch: parts.scratch,
  });
  say('addon compiled');
}

async function arrangeTree(parts: Parts, tree: string): Promise<void> {
  for (const folder of ['bin', 'licenses']) {
    await mkdir(path.join(tree, folder), { recursive: true });
  }
  await rename(path.join(parts.node, 'bin', 'node'), path.join(tree, 'bin', 'node'));
  await rename(path.join(parts.node, 'LICENSE'), path.join(tree, 'licenses', 'node'));
  await rename(path.join(parts.tensorflow, 'include', 'LICENSE'), path.join(tree, 'licenses', 'tensorflow'));
  await rm(parts.otherAddon, { recursive: true });
  await pruneFolder(parts.modules, isNeeded);
  await rename(parts.modules, path.join(tree, 'node_modules'));
}

function nameOf(wheel: Wheel): string {
  return `${wheel.name} ${wheel.version}`;
}

/** Removes debug symbols, which account for a quarter of a library's size. Does nothing if `strip` is not installed. */
async function strip(file: string, signal: AbortSignal): Promise<void> {
  try {
    await runTool({ command: 'strip', args: ['--strip-unneeded', file], cwd: path.dirname(file), signal, timeoutMs: 10 * 60_000 });
  } catch (error) {
    if (signal.aborted || !(error instanceof TonyError && error.code === 'RUNTIME_TOOL_NOT_FOUND')) {
      throw error;
    }
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
  const call = {
    command: path.join(tree, 'bin', 'node'),
    args: ['-e', PROOF, addonPackage],
    cwd: tree,
    env: { TF_CPP_MIN_LOG_LEVEL: '2', NODE_OPTIONS: '' },
    timeoutMs: 120_000,
  };
  await runExplained(call, (failure) => {
    const message = `the new runtime failed its test computation: ${failure.message}\n${failure.lastLines(15)}`;
    return new TonyError('RUNTIME_INVALID', message, {
      hint: 'This machine may lack memory, or the CPU instructions (AVX) that TensorFlow needs. The output above shows the cause.',
      cause: failure,
    });
  });
}
