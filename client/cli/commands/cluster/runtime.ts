import { copyFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Argv, CommandModule } from 'yargs';
import { TonyError } from '../../../../platform/errors.ts';
import { makeFolders } from '../../../../platform/files/make-folders.ts';
import { valueWriter } from '../../../output/lines/value-output.ts';
import { ensureRuntime, findRuntime, type Runtime, removeRuntime } from '../../../runtime/ensure-runtime.ts';
import { DEFAULT_NODE, type NodeMajor } from '../../../runtime/pins.ts';
import { defineCommand } from '../define-command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';

interface Which {
  node: NodeMajor;
  gpu: boolean;
}

function which(yargs: Argv): Argv<Which> {
  return yargs
    .option('node', {
      choices: [20, 22, 24] as const,
      default: DEFAULT_NODE,
      describe: 'Major version of Node.js; 22 and 24 run .ts files directly',
    })
    .option('gpu', { type: 'boolean', default: false, describe: 'Include CUDA libraries (downloads about 2.4 GB)' });
}

const buildCommand = defineCommand({
  command: 'build',
  describe: 'Build the runtime from package registries, unless it already exists, and print the path of its archive',
  builder: (yargs) =>
    which(yargs)
      .option('to', { type: 'string', requiresArg: true, describe: 'Copy the archive to this file' })
      .option('force', { type: 'boolean', default: false, describe: 'Build the runtime even if it already exists' }),
  handler: async ({ node, gpu, to, force }) => {
    if (force) {
      await removeRuntime({ node, gpu });
    }
    const runtime = await ensureRuntime((line) => process.stderr.write(`${line}\n`), { node, gpu });
    process.stdout.write(`${to === undefined ? runtime.archive : await copyArchive(runtime, path.resolve(to))}\n`);
  },
});

const pathCommand = defineCommand({
  command: 'path',
  describe: 'Print the folder of the unpacked runtime: bin/node, node_modules',
  builder: which,
  handler: async (options) => {
    process.stdout.write(`${(await present(options)).tree}\n`);
  },
});

const infoCommand = defineCommand({
  command: 'info',
  describe: 'Print the contents of the runtime',
  builder: (yargs) => which(yargs).options(OUTPUT_OPTION),
  handler: async ({ output, ...options }) => {
    const runtime = await present(options);
    if (output === 'table') {
      process.stdout.write(describeRuntime(runtime));
    } else {
      (await valueWriter(output))(runtime);
    }
  },
});

export const runtimeCommand: CommandModule = {
  command: 'runtime',
  describe: 'Build or inspect the runtime: the archive with Node.js and TensorFlow.js for the nodes',
  builder: (yargs) => yargs.command(buildCommand).command(pathCommand).command(infoCommand),
  handler: () => {},
};

async function present(options: Which): Promise<Runtime> {
  const runtime = await findRuntime(options);
  if (runtime !== null) {
    return runtime;
  }
  throw new TonyError('RUNTIME_NOT_BUILT', `there is no runtime with Node ${options.node}${options.gpu ? ' and GPU support' : ''} yet`, {
    hint: `Build it with \`tony-ts runtime build --node ${options.node}${options.gpu ? ' --gpu' : ''}\`.`,
  });
}

/** Copies the archive to a temporary file and renames it, so that `output` is never incomplete. */
async function copyArchive(runtime: Runtime, output: string): Promise<string> {
  const partial = `${output}.${process.pid}.partial`;
  try {
    await makeFolders(path.dirname(output));
    await copyFile(runtime.archive, partial);
    await rename(partial, output);
  } catch (error) {
    await rm(partial, { force: true });
    throw new TonyError('STORAGE_REFUSED', `cannot write the archive to ${output}`, { cause: error });
  }
  return output;
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
