import { createHash } from 'node:crypto';
import { TonyError } from '../../conf/errors.ts';
import {
  type Architecture,
  CPU_LIBTENSORFLOW,
  DEFAULT_NODE,
  GPU_LIBTENSORFLOW,
  type Libtensorflow,
  NODE_PACKAGES,
  type NodeMajor,
  type NodePackage,
  PACKAGE_LOCK,
  TFJS_VERSION,
} from './pins.ts';

export interface RuntimeOptions {
  /** Major version of the Node that the user's programs run with; 22 when not given. */
  readonly node?: NodeMajor;
  /** With CUDA libraries and tfjs-node-gpu: about 2.4 GB are downloaded. */
  readonly gpu?: boolean;
}

/** Everything that decides what a runtime holds. Two equal recipes make runtimes that do the same. */
export interface Recipe {
  readonly architecture: Architecture;
  readonly node: NodePackage;
  readonly gpu: boolean;
  readonly libtensorflow: Libtensorflow;
  /** Names the runtime in the cache: versions for people, and a digest of all that is pinned. */
  readonly key: string;
}

/** Counts changes of how a runtime is put together from the same parts, so that runtimes of an older way are not used. */
const LAYOUT = 3;

/** Of the machines that a runtime is for: of the same kind as this one. @throws TonyError RUNTIME_UNSUPPORTED */
export function architectureOf(machine: { readonly platform: string; readonly arch: string } = process): Architecture {
  const { arch } = machine;
  if (machine.platform === 'linux' && (arch === 'x64' || arch === 'arm64')) return arch;
  throw new TonyError(
    'RUNTIME_UNSUPPORTED',
    `runtimes are for Linux on x64 and arm64; this machine is ${machine.platform} ${machine.arch}`,
  );
}

/** @throws TonyError RUNTIME_UNSUPPORTED */
export function recipeOf(options: RuntimeOptions, machine: { readonly platform: string; readonly arch: string } = process): Recipe {
  const architecture = architectureOf(machine);
  const gpu = options.gpu ?? false;
  if (gpu && architecture !== 'x64') {
    throw new TonyError('RUNTIME_UNSUPPORTED', `a runtime with GPU support is for Linux on x64; this machine is ${machine.arch}`);
  }
  const node = NODE_PACKAGES[options.node ?? DEFAULT_NODE][architecture];
  const libtensorflow = gpu ? GPU_LIBTENSORFLOW : CPU_LIBTENSORFLOW[architecture];
  const digest = createHash('sha256')
    .update(JSON.stringify({ layout: LAYOUT, architecture, node, gpu, libtensorflow, lock: PACKAGE_LOCK }))
    .digest('hex');
  const key = `tfjs-${TFJS_VERSION}-node-${node.version}-${architecture}${gpu ? '-gpu' : ''}-${digest.slice(0, 12)}`;
  return { architecture, node, gpu, libtensorflow, key };
}
