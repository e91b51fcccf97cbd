import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, release, type } from 'node:os';
import { promisify } from 'node:util';
import { formatBytes } from '../../../conf/values/quantities.ts';
import description from '../../../package.json' with { type: 'json' };
import { checkOptions } from '../../../platform/check-options.ts';
import { messageOf } from '../../../platform/errors.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../../cluster/cluster.ts';
import { withCluster } from '../../cluster/with-cluster.ts';

export interface PartVersion {
  readonly part: string;
  /** Version, or null if the component is missing or does not report a version. */
  readonly version: string | null;
  /** Path or contents of the component, or the reason why its version is unknown. */
  readonly message: string;
}

const LIBRARIES = ['@tensorflow/tfjs', '@tensorflow/tfjs-backend-wasm', '@tensorflow/tfjs-node', '@tensorflow/tfjs-node-gpu'] as const;
const NODES = [20, 22, 24] as const;
const PYTHON_MS = 5_000;

/** Returns the versions of the components that matter for troubleshooting. A missing component is not an error. */
export async function versions(options: ClusterOptions = {}): Promise<PartVersion[]> {
  checkOptions('versions', options, CLUSTER_OPTIONS);
  const [system, libraries, runtimes, python, tensorBoard, cluster] = await Promise.all([
    operatingSystem(),
    Promise.all(LIBRARIES.map(library)),
    builtRuntimes(),
    pythonVersion(),
    tensorBoardVersion(),
    clusterVersions(options),
  ]);
  return [
    { part: 'tony-ts', version: description.version, message: '' },
    { part: 'Node', version: process.versions.node, message: process.execPath },
    system,
    ...libraries,
    ...runtimes,
    python,
    tensorBoard,
    ...cluster,
  ];
}

async function operatingSystem(): Promise<PartVersion> {
  const text = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const name = /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(text)?.[1];
  return { part: 'system', version: `${type()} ${release()} ${arch()}`, message: name ?? '' };
}

async function library(name: (typeof LIBRARIES)[number]): Promise<PartVersion> {
  try {
    const file = createRequire(import.meta.url).resolve(`${name}/package.json`);
    const { version } = JSON.parse(await readFile(file, 'utf8')) as { version?: unknown };
    return { part: name, version: typeof version === 'string' ? version : null, message: '' };
  } catch {
    return { part: name, version: null, message: 'not installed on this machine; jobs use the version in their runtime' };
  }
}

async function builtRuntimes(): Promise<PartVersion[]> {
  const { findRuntime } = await import('../../runtime/ensure-runtime.ts');
  const wanted = NODES.flatMap((node) => [false, true].map((gpu) => ({ node, gpu })));
  const found = await Promise.all(
    wanted.map(async ({ node, gpu }): Promise<PartVersion[]> => {
      const runtime = await findRuntime({ node, gpu }).catch(() => null);
      if (runtime === null) {
        return [];
      }
      const message = `TensorFlow.js ${runtime.tensorflowJs}, libtensorflow ${runtime.libtensorflow}, ${formatBytes(runtime.size)}`;
      return [{ part: gpu ? 'runtime with GPUs' : 'runtime', version: `Node ${runtime.node}`, message }];
    }),
  );
  const built = found.flat();
  return built.length > 0
    ? built
    : [{ part: 'runtime', version: null, message: 'not built yet; run tony-ts runtime build, or submit a job' }];
}

async function pythonVersion(): Promise<PartVersion> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['--version'], { timeout: PYTHON_MS, killSignal: 'SIGKILL' });
    return { part: 'Python', version: stdout.trim().replace(/^Python /, ''), message: 'for TensorBoard and python.requirements' };
  } catch {
    return { part: 'Python', version: null, message: 'no python3 on the PATH; TensorBoard and python.requirements need it' };
  }
}

async function tensorBoardVersion(): Promise<PartVersion> {
  const { findTensorBoard } = await import('../../python/ensure-tensorboard.ts');
  const found = await findTensorBoard().catch(() => null);
  if (found === null) {
    return { part: 'TensorBoard', version: null, message: 'not downloaded yet; submitting a job with TensorBoard downloads it' };
  }
  return { part: 'TensorBoard', version: found.tensorboard, message: formatBytes(found.size) };
}

async function clusterVersions(options: ClusterOptions): Promise<PartVersion[]> {
  const { javaOfDaemon } = await import('../../../hadoop/configuration/daemon-java.ts');
  const { trustOf } = await import('../../../hadoop/configuration/authorities.ts');
  try {
    return await withCluster(options, async (cluster, resourceManager) => {
      const { resourceManagerVersion } = await resourceManager.clusterInfo();
      let java: string | null = null;
      for (const address of cluster.configuration.resourceManagers) {
        java ??= await javaOfDaemon(new URL(address), cluster.login, trustOf(cluster.configuration));
      }
      return [
        { part: 'Hadoop', version: resourceManagerVersion, message: cluster.configuration.resourceManagers.join(', ') },
        { part: 'Java', version: java, message: java === null ? 'the ResourceManager does not report it' : 'used by the ResourceManager' },
      ];
    });
  } catch (error) {
    return [
      { part: 'Hadoop', version: null, message: messageOf(error) },
      { part: 'Java', version: null, message: 'unknown, because the cluster cannot be queried' },
    ];
  }
}
