import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../conf/errors.ts';
import { compilerCommand } from './prerequisites.ts';
import { runTool, ToolFailure } from './tool.ts';

/** The version of Node-API that the addon is compiled for, and the folder in which tfjs-node looks for it; Node 20 and all later have it. */
const NODE_API = 8;

const SOURCES = ['tfjs_backend', 'tfjs_binding'];

/**
 * Nodes of the cluster may be older than this machine. The one thing that newer compilers' headers take from a newer libstdc++ (GCC 11's, for
 * containers asked to hold more than memory has addresses) is defined in the addon itself; it then asks for less than Node does.
 */
const OLDER_LIBSTDCXX = `#include <cstdlib>
namespace std { __attribute__((visibility("hidden"), noreturn)) void __throw_bad_array_new_length() { abort(); } }
`;

export interface AddonInputs {
  /** node_modules/@tensorflow/tfjs-node, with the TensorFlow libraries in deps/lib. */
  readonly package: string;
  /** Node's include/node. */
  readonly nodeHeaders: string;
  readonly tensorflowHeaders: string;
  /** For what is thrown away afterwards. */
  readonly scratch: string;
  readonly signal: AbortSignal;
}

/**
 * Compiles tfjs-node's addon: two files and one link, the same as the package's binding.gyp says, without what node-gyp needs
 * (make, Python modules, downloaded headers).
 * @throws TonyError RUNTIME_TOOL_MISSING, RUNTIME_COMPILE_FAILED
 */
export async function compileAddon(inputs: AddonInputs): Promise<void> {
  const { package: folder, scratch, signal } = inputs;
  const command = compilerCommand();
  const compiler = async (args: readonly string[]) => {
    try {
      await runTool({ command, args, cwd: scratch, signal, timeoutMs: 10 * 60_000 });
    } catch (error) {
      if (!(error instanceof ToolFailure)) throw error;
      const message = `the addon of TensorFlow.js does not compile: ${error.message}\n${error.lastLines(15)}`;
      throw new TonyError('RUNTIME_COMPILE_FAILED', message, { cause: error });
    }
  };
  const compatibility = path.join(scratch, 'older_libstdcxx.cc');
  await writeFile(compatibility, OLDER_LIBSTDCXX);
  const objects = await Promise.all(
    [...SOURCES.map((source) => path.join(folder, 'binding', `${source}.cc`)), compatibility].map(async (input) => {
      const object = path.join(scratch, `${path.basename(input, '.cc')}.o`);
      const includes = ['-I', inputs.nodeHeaders, '-I', inputs.tensorflowHeaders];
      const defines = [`-DNAPI_VERSION=${NODE_API}`, '-DNODE_GYP_MODULE_NAME=tfjs_binding', '-DBUILDING_NODE_EXTENSION'];
      // The folder's name is in messages of the addon; without it every build gives the same bytes.
      const how = ['-std=c++17', '-O2', '-fPIC', '-fno-exceptions', '-fno-rtti', '-w', `-ffile-prefix-map=${folder}=.`];
      await compiler([...how, ...defines, ...includes, '-c', input, '-o', object]);
      return object;
    }),
  );
  const libraries = path.join(folder, 'deps', 'lib');
  const output = path.join(folder, 'lib', `napi-v${NODE_API}`);
  await mkdir(output, { recursive: true });
  await compiler([
    ...['-shared', '-Wl,--as-needed', '-Wl,-rpath,$ORIGIN/../../deps/lib', '-s', ...objects],
    ...['-L', libraries, '-l:libtensorflow_cc.so.2', '-l:libtensorflow_framework.so.2', '-o', path.join(output, 'tfjs_binding.node')],
  ]);
}
