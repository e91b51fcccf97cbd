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
  const folder = await temporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    await writeFile(path.join(folder, name), text);
  }
  return await (await startDriver(script, folder, variables, python)).ran;
}

/** Starts a Python script like runDriver, in an existing folder. `kill` ends the script and Spark, but not its jobs. */
export async function startDriver(
  script: string,
  folder: string,
  variables: Readonly<Record<string, string>> = {},
  python: string | null = null,
): Promise<{ readonly ran: Promise<Ran>; readonly kill: () => void }> {
  const interpreter = python ?? (await sparkEnvironment());
  await writeFile(path.join(folder, 'main.py'), script);
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
  const running = execute(interpreter, ['main.py'], { cwd: folder, env });
  const ran = running.then(({ stdout, stderr }) => ({ value: JSON.parse(stdout.trim().split('\n').at(-1) ?? ''), stdout, stderr }));
  // Spark's JVM ends with the script, which is its parent.
  return { ran, kill: () => running.child.kill('SIGKILL') };
}
