import path from 'node:path';
import { packagesFor, pythonThatImports, pythonWith } from './python-environment.ts';

const VERSION = '4.0.2';
const PACKAGES = [`pyspark==${VERSION}`, 'pyarrow==26.0.1', 'numpy==2.4.6', 'pandas==3.1.1'];

/** Returns an interpreter with PySpark, which contains cloudpickle, and with what PySpark needs for DataFrames. Spark itself needs Java 17. */
export function sparkEnvironment(): Promise<string> {
  return pythonWith(folder(`pyspark-${VERSION}-1`), PACKAGES);
}

/** Returns an interpreter that also has TensorFlow, and Keras 2, with which `fit` can train in several workers. */
export function sparkWithTensorflow(): Promise<string> {
  return pythonWith(folder(`pyspark-${VERSION}-tensorflow-1`), [...PACKAGES, 'tensorflow-cpu==2.21.0', 'tf_keras==2.21.0']);
}

/**
 * Returns the machine's interpreter that has PyTorch, and the folder with PySpark for it, which belongs into PYTHONPATH. Returns null if there
 * is no PyTorch.
 */
export async function sparkWithTorch(): Promise<{ readonly python: string; readonly packages: string } | null> {
  const python = await pythonThatImports('torch');
  if (python === null) {
    return null;
  }
  // Debian's PyTorch needs NumPy 1.
  const packages = [PACKAGES[0] as string, 'py4j==0.10.9.9', 'pandas==2.2.3', 'pytz==2026.6', 'tzdata==2026.6', 'pyarrow==17.0.0'];
  return { python, packages: await packagesFor(python, folder(`pyspark-${VERSION}-torch-1`), packages) };
}

/** Tests and benchmarks start in the root of the repository; a benchmark's bundle is elsewhere. */
function folder(name: string): string {
  return path.resolve('.cache', name);
}
