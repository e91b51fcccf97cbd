import { chmod, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { COMMAND, environment, ROOT } from './command.ts';
import { execute } from './execute.ts';
import { temporaryFolder } from './harness.ts';
import { sparkEnvironment } from './spark-environment.ts';

/** Trains on a DataFrame, and fails if the job returns a wrong value. */
const TRAIN = `
def train():
    import tony
    return sum(float(batch["x"].sum()) for batch in tony.feed("train", 100))

def run():
    df = spark.range(0, 1000, 1, 4).selectExpr("array(float(id)) AS x")
    assert tony_spark.run(train, conf, feeds={"train": df}) == sum(range(1000))
`;

/** A Spark program that calls a function `run`. Its job uses the interpreter of Spark. */
function programOf(run: string): string {
  return `
import os, traceback
from pyspark.sql import SparkSession
from tony import spark as tony_spark

spark = SparkSession.builder.getOrCreate()
conf = {"env": {"PATH": os.environ["JOB_PATH"]}, "runtime": "system", "roles": {"worker": {"resources": {"memory": "512m"}}}}
${run}
try:
    run()
except BaseException:
    with open(os.environ["FAILURE"], "w") as file:
        traceback.print_exc(file=file)
    raise
spark.stop()
`;
}

export interface SparkSubmission {
  readonly mode: 'client' | 'cluster';
  /** Environment of a client of the cluster. */
  readonly client: Readonly<Record<string, string | undefined>>;
  /** Variables of the driver. */
  readonly driver?: Readonly<Record<string, string>>;
  readonly words?: readonly string[];
  /** Python code that defines a function `run`, which fails if the job has a wrong result. By default, it trains on a DataFrame. */
  readonly run?: string;
}

/**
 * Submits a Spark program with a job. In cluster mode, its driver gets the command and the Python package as docs/spark.md
 * describes it.
 * @returns the output of spark-submit
 * @throws if the program fails; the message contains the traceback
 */
export async function sparkSubmit({ mode, client, driver = {}, words: more = [], run: code = TRAIN }: SparkSubmission): Promise<string> {
  const folder = await temporaryFolder();
  const python = await sparkEnvironment();
  await writeFile(path.join(folder, 'train.py'), programOf(code));
  // In cluster mode, spark-submit does not print the output of the driver.
  const failure = path.join(folder, 'failure.txt');
  const variables = {
    PYSPARK_PYTHON: python,
    SPARK_LOCAL_IP: '127.0.0.1',
    JOB_PATH: `${path.dirname(python)}:${process.env.PATH}`,
    FAILURE: failure,
    ...driver,
  };
  const { stdout } = await execute(python, ['-c', 'import pyspark; print(pyspark.__path__[0])']);
  const submit = path.join(stdout.trim(), 'bin', 'spark-submit');
  const memory = ['spark.driver.memory', 'spark.executor.memory', 'spark.yarn.am.memory'].map((name) => `${name}=512m`);
  const properties = [...memory, 'spark.executor.instances=1', 'spark.yarn.maxAppAttempts=1'];
  const options = ['--master', 'yarn', '--deploy-mode', mode, ...more];
  const run = async (archives: readonly string[], env: Readonly<Record<string, string | undefined>>) => {
    const confs = properties.flatMap((property) => ['--conf', property]);
    const words = [...options, ...archives, ...confs, 'train.py'];
    const running = execute(submit, words, { cwd: folder, env: environment(env) });
    const output = await running.catch(async (error: Error) => {
      throw new Error(`${await readFile(failure, 'utf8').catch(() => '')}\n${error.message}`);
    });
    return output.stdout + output.stderr;
  };
  if (mode === 'client') {
    const command = { PYTHONPATH: path.join(ROOT, 'python'), TONY_COMMAND: `'${process.execPath}' '${COMMAND}'` };
    return await run([], { ...client, ...variables, ...command });
  }
  await packCommand(folder, path.join(folder, 'tony-ts.tar.gz'));
  const ofDriver = {
    ...variables,
    TONY_COMMAND: './tony-ts/bin/tony-ts',
    TONY_CACHE_DIR: './tony-ts/cache',
    PYTHONPATH: './tony-ts/lib/node_modules/tony-ts/dist/container/python',
    HADOOP_CONF_DIR: client.HADOOP_CONF_DIR ?? '',
  };
  properties.push(...Object.entries(ofDriver).map(([name, value]) => `spark.yarn.appMasterEnv.${name}=${value}`));
  return await run(['--archives', 'tony-ts.tar.gz#tony-ts'], { ...client, ...variables });
}

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
