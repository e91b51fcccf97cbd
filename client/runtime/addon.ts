import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { compilerCommand } from './prerequisites.ts';
import { runExplained } from './tool.ts';

/**
 * Node-API version for which the addon is compiled. Node 20 and newer support this version. tfjs-node loads the addon from a folder whose
 * name contains this version.
 */
const NODE_API = 8;

const SOURCES = ['tfjs_backend', 'tfjs_binding'];

/**
 * Defines a function that older versions of libstdc++ lack. The headers in GCC 11 and newer call this function, but only for impossible
 * array sizes. With this definition, the addon loads with every version of libstdc++ that Node supports.
 */
const OLDER_LIBSTDCXX = `#include <cstdlib>
namespace std { __attribute__((visibility("hidden"), noreturn)) void __throw_bad_array_new_length() { abort(); } }
`;

export interface AddonInputs {
  /** The folder node_modules/@tensorflow/tfjs-node, with the TensorFlow libraries in deps/lib. */
  readonly package: string;
  readonly nodeHeaders: string;
  readonly tensorflowHeaders: string;
  readonly scratch: string;
}

/**
 * Compiles the tfjs-node addon with the compiler options from its binding.gyp. Does not use node-gyp, which requires make, Python modules
 * and downloaded headers.
 * @throws TonyError RUNTIME_TOOL_NOT_FOUND, RUNTIME_COMPILE_FAILED
 */
export async function compileAddon(inputs: AddonInputs): Promise<void> {
  const { package: folder, scratch } = inputs;
  const command = compilerCommand();
  const compiler = (args: readonly string[]) =>
    runExplained({ command, args, cwd: scratch, timeoutMs: 10 * 60_000 }, (failure) => {
      const message = `cannot compile the TensorFlow.js addon: ${failure.message}\n${failure.lastLines(15)}`;
      return new TonyError('RUNTIME_COMPILE_FAILED', message, { cause: failure });
    });
  const compatibility = path.join(scratch, 'older_libstdcxx.cc');
  await writeFile(compatibility, OLDER_LIBSTDCXX);
  const objects = await Promise.all(
    [...SOURCES.map((source) => path.join(folder, 'binding', `${source}.cc`)), compatibility].map(async (input) => {
      const object = path.join(scratch, `${path.basename(input, '.cc')}.o`);
      const includes = ['-I', inputs.nodeHeaders, '-I', inputs.tensorflowHeaders];
      const defines = [`-DNAPI_VERSION=${NODE_API}`, '-DNODE_GYP_MODULE_NAME=tfjs_binding', '-DBUILDING_NODE_EXTENSION'];
      // -ffile-prefix-map makes the build reproducible: the folder name does not appear in the addon's error messages.
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
