import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { COMMAND, environment, ROOT } from './command.ts';
import { execute } from './execute.ts';
import { temporaryFolder } from './harness.ts';
import { sparkEnvironment } from './spark-environment.ts';

export interface Ran {
  /** The JSON value in the last line that the script has printed. */
  readonly value: unknown;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a Python script, which uses `tony.spark` for local jobs, in a new folder with the other files. */
export async function runDriver(
  script: string,
  files: Readonly<Record<string, string>> = {},
  variables: Readonly<Record<string, string>> = {},
  python: string | null = null,
): Promise<Ran> {
  const interpreter = python ?? (await sparkEnvironment());
  const folder = await temporaryFolder();
  for (const [name, text] of Object.entries({ ...files, 'main.py': script })) {
    await writeFile(path.join(folder, name), text);
  }
  const env = environment({
    PYTHONPATH: path.join(ROOT, 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
    PYSPARK_PYTHON: interpreter,
    // The host's name may belong to an interface that Spark's processes do not listen on.
    SPARK_LOCAL_IP: '127.0.0.1',
    // The command is not on PATH.
    TONY_COMMAND: `'${process.execPath}' '${COMMAND}'`,
    TONY_LOCAL_DIR: path.join(folder, 'local'),
    HADOOP_CONF_DIR: undefined,
    ...variables,
  });
  const { stdout, stderr } = await execute(interpreter, ['main.py'], { cwd: folder, env });
  return { value: JSON.parse(stdout.trim().split('\n').at(-1) ?? ''), stdout, stderr };
}
