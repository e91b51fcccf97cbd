import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { describeValue } from '../../platform/text/describe-value.ts';
import { installNativeKernels } from './native/native-kernels.ts';

export type BackendName = 'gpu' | 'native' | 'wasm' | 'cpu';

export interface Backend {
  readonly name: BackendName;
  readonly tf: typeof tfjs;
}

const ORDER: readonly BackendName[] = ['gpu', 'native', 'wasm', 'cpu'];

const PACKAGES: Readonly<Record<BackendName, string>> = {
  gpu: '@tensorflow/tfjs-node-gpu',
  native: '@tensorflow/tfjs-node',
  wasm: '@tensorflow/tfjs-backend-wasm',
  cpu: '@tensorflow/tfjs',
};

/**
 * Loads the fastest available backend. Tries CUDA (if the machine has a GPU), TensorFlow's C library, WebAssembly and plain JavaScript, in
 * that order. The TONY_BACKEND environment variable selects a specific backend: `gpu`, `native`, `wasm` or `cpu`.
 *
 * The native backend blocks the event loop during each operation. TF_NUM_INTRAOP_THREADS sets its number of threads, which defaults to the
 * number of cores divided by `neighbours`.
 *
 * On the `gpu` and `native` backends, gradients and optimizer steps use TensorFlow's kernels, unless TONY_NATIVE_KERNELS is `off`.
 * TensorFlow's kernels return the same results as TensorFlow.js, but are several times faster.
 *
 * @param neighbours how many of this job's ranks run on this machine, including this one.
 * @throws TonyError BACKEND_NOT_FOUND if no backend can be loaded. The message gives the reason for each backend.
 */
export async function loadBackend(neighbours: number, environment: NodeJS.ProcessEnv = process.env): Promise<Backend> {
  environment.TF_CPP_MIN_LOG_LEVEL ??= '2';
  environment.TF_NUM_INTRAOP_THREADS ??= String(Math.max(1, Math.floor(availableParallelism() / neighbours)));
  // The number of operations of a compiled graph that run at the same time.
  environment.TF_NUM_INTEROP_THREADS ??= environment.TF_NUM_INTRAOP_THREADS;
  const selected = environment.TONY_BACKEND;
  if (selected !== undefined && selected !== '' && !ORDER.includes(selected as BackendName)) {
    throw new TonyError('BACKEND_NOT_FOUND', `TONY_BACKEND names an unknown backend: ${selected}`, {
      hint: `Use one of ${ORDER.join(', ')}.`,
    });
  }
  const names = selected ? [selected as BackendName] : ORDER.filter((name) => name !== 'gpu' || hasGpu(environment));
  const reasons: string[] = [];
  for (const name of names) {
    try {
      const tf = await load(name);
      if (environment.TONY_NATIVE_KERNELS !== 'off') {
        installNativeKernels(tf);
      }
      return { name, tf };
    } catch (error) {
      // `require` appends a list of modules to its error messages, so only the first line contains the reason.
      const [reason = ''] = messageOf(error).split('\n');
      reasons.push(`${PACKAGES[name]}: ${reason.slice(0, 200)}`);
    }
  }
  throw new TonyError('BACKEND_NOT_FOUND', `no TensorFlow.js backend could be loaded: ${reasons.join('; ')}`);
}

/** Returns true if the machine has a GPU that this process may use. */
export function hasGpu(environment: NodeJS.ProcessEnv = process.env): boolean {
  const visible = environment.CUDA_VISIBLE_DEVICES;
  return visible !== '' && visible !== '-1' && existsSync('/dev/nvidiactl');
}

async function load(name: BackendName): Promise<typeof tfjs> {
  if (name === 'gpu' || name === 'native') {
    return requireModule(PACKAGES[name]);
  }
  const tf = requireModule(PACKAGES.cpu);
  if (name === 'wasm') {
    requireModule(PACKAGES.wasm);
    unregisterWrongKernels(tf);
  }
  if (!(await tf.setBackend(name))) {
    throw new TonyError('BACKEND_NOT_FOUND', `the ${name} backend failed to start`);
  }
  await tf.ready();
  return tf;
}

/**
 * Loads TensorFlow.js from the package that the user's program also imports, because the bundle does not contain TensorFlow.js. `import`
 * would take 0.25 s longer, because it parses CommonJS modules to find their exports.
 */
const requireModule = createRequire(import.meta.url) as (specifier: string) => typeof tfjs;

/**
 * Gradient kernels in tfjs-backend-wasm 4.22 that silently return wrong results. They are unregistered, so a program that needs one of them
 * fails instead of training incorrectly.
 */
const WRONG_WASM_KERNELS = ['MaxPoolGrad', 'MaxPool3DGrad', 'ResizeNearestNeighborGrad', 'Conv3DBackpropInputV2'];

function unregisterWrongKernels(tf: typeof tfjs): void {
  const registered = new Set(tf.getKernelsForBackend('wasm').map(({ kernelName }) => kernelName));
  for (const kernel of WRONG_WASM_KERNELS) {
    if (registered.has(kernel)) {
      tf.unregisterKernel(kernel, 'wasm');
    }
  }
}

/** Layers for which the wasm backend has no gradients, or computes incorrect ones. */
const UNFIT_FOR_WASM =
  /^(Conv[123]D|Conv[23]DTranspose|SeparableConv[12]D|DepthwiseConv2D|ConvLSTM2D(Cell)?|(Global)?MaxPooling[123]D|UpSampling2D|Embedding)$/;

export interface LayerTree {
  readonly name: string;
  getClassName(): string;
  readonly layers?: readonly LayerTree[];
  /** The layer inside a wrapper such as TimeDistributed. */
  readonly layer?: LayerTree;
  readonly forwardLayer?: LayerTree;
  readonly cell?: LayerTree;
}

/** @throws TonyError BACKEND_UNSUPPORTED if the backend cannot train the model correctly. */
export function refuseUnfitModel(backend: BackendName, model: tfjs.LayersModel): void {
  if (typeof (model as tfjs.LayersModel | null | undefined)?.getClassName !== 'function') {
    throw new TonyError('USAGE', `expected a model, found ${describeValue(model)}`);
  }
  if (backend !== 'wasm') {
    return;
  }
  const unfit = [...layersOf(model as unknown as LayerTree)].filter((layer) => UNFIT_FOR_WASM.test(layer.getClassName()));
  if (unfit.length > 0) {
    const names = unfit.map((layer) => `${layer.name} (${layer.getClassName()})`).join(', ');
    throw new TonyError(
      'BACKEND_UNSUPPORTED',
      `the wasm backend cannot train ${names}: it lacks their gradients or computes them incorrectly`,
    );
  }
}

/** Yields the layer, then all layers nested in it. */
export function* layersOf(layer: LayerTree): Generator<LayerTree> {
  yield layer;
  const inner = [...(layer.layers ?? []), layer.layer, layer.forwardLayer, layer.cell];
  for (const each of inner) {
    if (each !== undefined) {
      yield* layersOf(each);
    }
  }
}
