import { pythonWith } from './python-environment.ts';

/** The TensorFlow that the runtime's addon is built against, so that its kernels are the same. */
const VERSION = '2.18.1';
const KERAS = '2.18.0';

/** Path of a Python that has TensorFlow for CPUs. */
export async function tensorflowPython(progress: (line: string) => void): Promise<string> {
  return await pythonWith(`tensorflow-${VERSION}`, [`tensorflow-cpu==${VERSION}`, `tf_keras==${KERAS}`], progress);
}
