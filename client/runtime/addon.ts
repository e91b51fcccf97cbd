import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { compilerCommand } from './prerequisites.ts';
import { runTool, ToolFailure } from './tool.ts';

/**
 * The Node-API version that the addon is compiled for; Node 20 and newer support it. The folder in which tfjs-node looks for the addon is
 * named after this version.
 */
const NODE_API = 8;

const SOURCES = ['tfjs_backend', 'tfjs_binding'];

/**
 * Defines the one symbol of a newer libstdc++ that headers of newer compilers (since GCC 11) reference; the headers call it only for
 * C++ containers larger than the address space. The cluster's nodes may have an older libstdc++ than this machine; with this definition,
 * the addon loads with every libstdc++ that can run Node.
 */
const OLDER_LIBSTDCXX = `#include <cstdlib>
namespace std { __attribute__((visibility("hidden"), noreturn)) void __throw_bad_array_new_length() { abort(); } }
`;

export interface AddonInputs {
  /** The folder node_modules/@tensorflow/tfjs-node, with the TensorFlow libraries in deps/lib. */
  readonly package: string;
  /** The folder include/node of Node's headers. */
  readonly nodeHeaders: string;
  readonly tensorflowHeaders: string;
  /** A folder for temporary files. */
  readonly scratch: string;
  readonly signal: AbortSignal;
}

/**
 * Compiles tfjs-node's addon: two source files and one link step as in the package's binding.gyp, without node-gyp's requirements (make,
 * Python modules, downloaded headers).
 * @throws TonyError RUNTIME_TOOL_MISSING, RUNTIME_COMPILE_FAILED
 */
export async function compileAddon(inputs: AddonInputs): Promise<void> {
  const { package: folder, scratch, signal } = inputs;
  const command = compilerCommand();
  const compiler = async (args: readonly string[]) => {
    try {
      await runTool({ command, args, cwd: scratch, signal, timeoutMs: 10 * 60_000 });
    } catch (error) {
      if (!(error instanceof ToolFailure)) {
        throw error;
      }
      const message = `cannot compile the addon of TensorFlow.js: ${error.message}\n${error.lastLines(15)}`;
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
      // Removes the folder's name from the addon's messages, for reproducible builds.
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
