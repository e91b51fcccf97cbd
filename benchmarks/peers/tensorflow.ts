import { pythonWith } from './python-environment.ts';

/** The TensorFlow version of the runtime's addon, so that both use the same kernels. */
const VERSION = '2.18.1';
const KERAS = '2.18.0';

/** Returns the path of a Python interpreter with the CPU build of TensorFlow. */
export async function tensorflowPython(progress: (line: string) => void): Promise<string> {
  return await pythonWith(`tensorflow-${VERSION}`, [`tensorflow-cpu==${VERSION}`, `tf_keras==${KERAS}`], progress);
}
