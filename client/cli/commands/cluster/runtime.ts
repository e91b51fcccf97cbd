import { TonyError } from '../../../../platform/errors.ts';
import type { Runtime } from '../../../runtime/ensure-runtime.ts';
import { DEFAULT_NODE, type NodeMajor } from '../../../runtime/pins.ts';
import { defineCommand, defineGroup } from '../../command/command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';

interface Which {
  node: NodeMajor;
  gpu: boolean;
}

const RUNTIME_OPTIONS = {
  node: {
    choices: [20, 22, 24],
    default: DEFAULT_NODE,
    describe: 'Major version of Node.js; 22 and 24 run .ts files directly',
  },
  gpu: { type: 'boolean', default: false, describe: 'Include CUDA libraries (downloads about 2.4 GB)' },
} as const;

const buildCommand = defineCommand({
  command: 'build',
  describe: 'Build the runtime from package registries, unless it already exists, and print the path of its archive',
  options: {
    ...RUNTIME_OPTIONS,
    to: { type: 'string', describe: 'Copy the archive to this file' },
    rebuild: { type: 'boolean', default: false, describe: 'Build the runtime even if it already exists' },
  },
  handler: async ({ node, gpu, to, rebuild }) => {
    const { ensureRuntime, removeRuntime } = await import('../../../runtime/ensure-runtime.ts');
    const { buildTo } = await import('../../../runtime/build-to.ts');
    const build = async () => {
      if (rebuild) {
        await removeRuntime({ node, gpu });
      }
      return ensureRuntime((line) => process.stderr.write(`${line}\n`), { node, gpu });
    };
    process.stdout.write(`${to === undefined ? (await build()).archive : await buildTo(to, build)}\n`);
  },
});

const pathCommand = defineCommand({
  command: 'path',
  describe: 'Print the folder of the unpacked runtime: bin/node, node_modules',
  options: RUNTIME_OPTIONS,
  handler: async (options) => {
    process.stdout.write(`${(await present(options)).tree}\n`);
  },
});

const infoCommand = defineCommand({
  command: 'info',
  describe: 'Print the contents of the runtime',
  options: { ...RUNTIME_OPTIONS, ...OUTPUT_OPTION },
  handler: async ({ output, ...options }) => {
    const runtime = await present(options);
    if (output === 'table') {
      process.stdout.write(describeRuntime(runtime));
    } else {
      const { apiObject } = await import('../../../../conf/status/api-object.ts');
      const { valueWriter } = await import('../../../output/lines/value-output.ts');
      (await valueWriter(output))(apiObject('Runtime', runtime));
    }
  },
});

export const runtimeCommand = defineGroup(
  'runtime',
  'Build or inspect the runtime: the archive with Node.js and TensorFlow.js for the nodes',
  [buildCommand, pathCommand, infoCommand],
);

async function present(options: Which): Promise<Runtime> {
  const { findRuntime } = await import('../../../runtime/ensure-runtime.ts');
  const runtime = await findRuntime(options);
  if (runtime !== null) {
    return runtime;
  }
  throw new TonyError(
    'LOCAL_RUNTIME_NOT_FOUND',
    `There is no runtime with Node ${options.node}${options.gpu ? ' and GPU support' : ''} yet.`,
    {
      hint: `Build it with \`tony-ts runtime build --node ${options.node}${options.gpu ? ' --gpu' : ''}\`.`,
    },
  );
}

function describeRuntime(runtime: Runtime): string {
  const lines: readonly (readonly [string, string])[] = [
    ['Node', `${runtime.node} (${runtime.architecture})`],
    ['TensorFlow.js', `${runtime.tensorflowJs}, ${runtime.gpu ? 'tfjs-node-gpu' : 'tfjs-node'}`],
    ['TensorFlow', runtime.libtensorflow],
    ['archive', `${runtime.archive} (${(runtime.size / 1e6).toFixed(0)} MB)`],
    ['sha256', runtime.sha256],
    ['unpacked', runtime.tree],
  ];
  return lines.map(([name, value]) => `${name.padEnd(14)} ${value}\n`).join('');
}
