import { createHash } from 'node:crypto';
import { TonyError } from '../../platform/errors.ts';
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
  /** Major Node version for the user's programs. The default is 22. */
  readonly node?: NodeMajor;
  /** Whether to include the CUDA libraries and tfjs-node-gpu, which require downloads of about 2.4 GB. */
  readonly gpu?: boolean;
}

/** Versions and checksums that determine the content of a runtime. Identical recipes produce equivalent runtimes. */
export interface Recipe {
  readonly architecture: Architecture;
  readonly node: NodePackage;
  readonly gpu: boolean;
  readonly libtensorflow: Libtensorflow;
  /** Name of the runtime in the cache, which contains readable versions and a digest of all checksums. */
  readonly key: string;
}

/** Version of the runtime layout. Increment it when the same downloads produce a different runtime, so that cached runtimes are rebuilt. */
const LAYOUT = 4;

/**
 * Returns the architecture of this machine. The nodes must have the same architecture.
 * @throws TonyError RUNTIME_UNSUPPORTED
 */
export function architectureOf(machine: { readonly platform: string; readonly arch: string } = process): Architecture {
  const { arch } = machine;
  if (machine.platform === 'linux' && (arch === 'x64' || arch === 'arm64')) {
    return arch;
  }
  throw new TonyError(
    'RUNTIME_UNSUPPORTED',
    `runtimes can be built on Linux x64 and arm64 only; this machine is ${machine.platform} ${machine.arch}`,
  );
}

/** @throws TonyError RUNTIME_UNSUPPORTED */
export function recipeOf(options: RuntimeOptions, machine: { readonly platform: string; readonly arch: string } = process): Recipe {
  const architecture = architectureOf(machine);
  const gpu = options.gpu ?? false;
  if (gpu && architecture !== 'x64') {
    throw new TonyError(
      'RUNTIME_UNSUPPORTED',
      `a runtime with GPU support can be built on Linux x64 only; this machine is ${machine.arch}`,
    );
  }
  const node = NODE_PACKAGES[options.node ?? DEFAULT_NODE][architecture];
  const libtensorflow = gpu ? GPU_LIBTENSORFLOW : CPU_LIBTENSORFLOW[architecture];
  const digest = createHash('sha256')
    .update(JSON.stringify({ layout: LAYOUT, architecture, node, gpu, libtensorflow, lock: PACKAGE_LOCK }))
    .digest('hex');
  const key = `tfjs-${TFJS_VERSION}-node-${node.version}-${architecture}${gpu ? '-gpu' : ''}-${digest.slice(0, 12)}`;
  return { architecture, node, gpu, libtensorflow, key };
}
