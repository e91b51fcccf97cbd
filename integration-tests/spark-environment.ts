import { fileURLToPath } from 'node:url';
import { pythonWith } from './python-environment.ts';

const VERSION = '4.0.2';

/** Returns an interpreter with PySpark, which contains cloudpickle, and with what PySpark needs for DataFrames. Spark itself needs Java 17. */
export function sparkEnvironment(): Promise<string> {
  const folder = fileURLToPath(new URL(`../.cache/pyspark-${VERSION}-1`, import.meta.url));
  return pythonWith(folder, [`pyspark==${VERSION}`, 'pyarrow==26.0.1', 'numpy==2.4.6', 'pandas==3.1.1']);
}
