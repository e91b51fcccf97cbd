import path from 'node:path';
import { pythonWith } from './python-environment.ts';

const VERSION = '4.0.2';

/** Returns an interpreter with PySpark, which contains cloudpickle, and with what PySpark needs for DataFrames. Spark itself needs Java 17. */
export function sparkEnvironment(): Promise<string> {
  // Tests and benchmarks start in the root of the repository; a benchmark's bundle is elsewhere.
  const folder = path.resolve('.cache', `pyspark-${VERSION}-1`);
  return pythonWith(folder, [`pyspark==${VERSION}`, 'pyarrow==26.0.1', 'numpy==2.4.6', 'pandas==3.1.1']);
}
