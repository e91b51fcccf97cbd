import path from 'node:path';
import { pythonWith } from '../../integration-tests/python-environment.ts';

/** TensorFlow version of the runtime's addon. With the same version, both sides use the same kernels. */
const VERSION = '2.18.1';
const KERAS = '2.18.0';

/** Returns the path of a Python interpreter with the CPU build of TensorFlow. */
export function tensorflowPython(progress: (line: string) => void): Promise<string> {
  const folder = path.resolve('.cache', 'benchmarks', `tensorflow-${VERSION}`);
  return pythonWith(folder, [`tensorflow-cpu==${VERSION}`, `tf_keras==${KERAS}`], progress);
}
