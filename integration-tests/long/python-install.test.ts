import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { COMMAND, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';

/** Installs the Python package with pip, as users do on machines that submit jobs. */

/** Submits a job whose program reports a metric, and prints the job's result. */
const PROGRAM = `import sys
from typing import List

import tony
from tony.client import Client


def run(command: List[str], conf: str) -> str:
    client = Client(command)
    job = client.submit(conf, local=True)
    result = client.wait(job.id, timeout=120.0)
    result.check()
    return f"{result.state} {result.metrics['loss']}"


if __name__ == "__main__":
    tony.report(loss=0.5, step=1)
    print(run(sys.argv[1:3], sys.argv[3]))
`;

test('the installed package works without PYTHONPATH, submits a local job, and types a user program for mypy --strict', async () => {
  const folder = await temporaryFolder();
  const at = (...names: string[]) => path.join(folder, ...names);
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, HOME: process.env.HOME, TONY_LOCAL_DIR: at('root') };
  await execute('python3', ['-m', 'venv', at('venv')]);
  const python = (...words: string[]) => execute(at('venv', 'bin', 'python'), words, { cwd: folder, env });
  // pip may write into the package's folder.
  await cp(path.join(ROOT, 'python'), at('package'), { recursive: true });
  await python('-m', 'pip', 'install', '--quiet', at('package'), 'mypy==2.4.1');

  const { stdout: imported } = await python('-c', 'import tony; print(tony.__file__)');
  expect(imported).toContain(at('venv'));
  await writeFile(at('program.py'), PROGRAM);
  expect((await python('-m', 'mypy', '--strict', 'program.py')).stdout).toContain('Success');
  await writeFile(at('wrong.py'), 'import tony\n\ntony.report(loss=0.5, step="first")\n');
  await expect(python('-m', 'mypy', '--strict', 'wrong.py')).rejects.toMatchObject({ stdout: expect.stringContaining('"str"') });

  await writeFile(
    at('job.yaml'),
    `name: installed
framework: none
runtime: system
command: |
  ${at('venv', 'bin', 'python')} -c 'import tony; tony.report(loss=0.25, step=7)'
roles: {worker: {restart: {policy: never}}}
`,
  );
  expect((await python('program.py', process.execPath, COMMAND, at('job.yaml'))).stdout).toBe('succeeded 0.25\n');
});
