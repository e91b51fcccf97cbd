import { chmod, cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { environment, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, useCluster } from '../harness.ts';
import { sparkEnvironment } from '../spark-environment.ts';

const cluster = useCluster();

/** The application fails, and spark-submit with it, if the value is wrong. */
const PROGRAM = `
import os
from pyspark.sql import SparkSession
from tony import spark as tony_spark

spark = SparkSession.builder.getOrCreate()
df = spark.range(0, 1000, 1, 4).selectExpr("array(float(id)) AS x")

def train():
    import tony
    return sum(float(batch["x"].sum()) for batch in tony.feed("train", 100))

conf = {"env": {"PATH": os.environ["JOB_PATH"]}, "runtime": "system", "roles": {"worker": {"resources": {"memory": "512m"}}}}
assert tony_spark.run(train, conf, feeds={"train": df}) == sum(range(1000))
spark.stop()
`;

/** Writes an archive with the same paths as that of `npm run offline`, but with the Node.js of this machine. */
async function packCommand(folder: string, archive: string): Promise<void> {
  const stage = path.join(folder, 'stage');
  const installed = path.join(stage, 'lib', 'node_modules', 'tony-ts');
  await mkdir(path.join(stage, 'bin'), { recursive: true });
  await cp(path.join(ROOT, 'dist'), path.join(installed, 'dist'), { recursive: true });
  await cp(path.join(ROOT, 'package.json'), path.join(installed, 'package.json'));
  const command = path.join(stage, 'bin', 'tony-ts');
  await writeFile(
    command,
    `#!/bin/sh\nexec '${process.execPath}' "$(dirname "$(readlink -f "$0")")/../lib/node_modules/tony-ts/dist/tony-ts.js" "$@"\n`,
  );
  await chmod(command, 0o755);
  await execute('tar', ['czf', archive, '-C', stage, '.']);
}

test('a Spark driver in a container runs a job with the command and the Python package from an archive', async () => {
  const folder = await temporaryFolder();
  const python = await sparkEnvironment();
  await packCommand(folder, path.join(folder, 'tony-ts.tar.gz'));
  await writeFile(path.join(folder, 'train.py'), PROGRAM);
  const env = environment({ ...cluster.clientEnvironment(), PYSPARK_PYTHON: python, SPARK_LOCAL_IP: '127.0.0.1' });
  const { stdout } = await execute(python, ['-c', 'import pyspark; print(pyspark.__path__[0])']);
  // docs/spark.md documents the first four variables.
  const variables = {
    TONY_COMMAND: './tony-ts/bin/tony-ts',
    TONY_CACHE_DIR: './tony-ts/cache',
    PYTHONPATH: './tony-ts/lib/node_modules/tony-ts/dist/container/python',
    HADOOP_CONF_DIR: env.HADOOP_CONF_DIR ?? '',
    PYSPARK_PYTHON: python,
    JOB_PATH: `${path.dirname(python)}:${process.env.PATH}`,
  };
  const properties = {
    'spark.driver.memory': '512m',
    'spark.executor.memory': '512m',
    'spark.executor.instances': '1',
    'spark.yarn.maxAppAttempts': '1',
    ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [`spark.yarn.appMasterEnv.${name}`, value])),
  };
  const words = ['--master', 'yarn', '--deploy-mode', 'cluster', '--archives', 'tony-ts.tar.gz#tony-ts'];
  words.push(...Object.entries(properties).flatMap(([name, value]) => ['--conf', `${name}=${value}`]), 'train.py');
  const { stderr } = await execute(path.join(stdout.trim(), 'bin', 'spark-submit'), words, { cwd: folder, env });
  expect(stderr).toContain('final status: SUCCEEDED');
});
