import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { environment, ROOT } from '../command.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';

const execute = promisify(execFile);

test('the packed package installs in an empty prefix and trains from there', { timeout: 600_000 }, async () => {
  const folder = await temporaryFolder();
  const prefix = path.join(folder, 'prefix');
  // The test run's global setup has already built the package.
  await execute('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: ROOT });
  const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  await execute('npm', ['install', '--global', '--prefix', prefix, '--no-audit', '--no-fund', path.join(folder, archive)], { cwd: folder });
  const run = async (...words: string[]): Promise<string> => {
    const command = path.join(prefix, 'bin', 'tony-ts');
    return (await execute(command, words, { cwd: folder, env: environment({ TONY_LOCAL_DIR: path.join(folder, 'local') }) })).stdout;
  };
  await run('init', 'my-job', '--yes');
  const lines = jsonLines(await run('submit', '--local', '--conf', 'my-job/job.yaml', '--output', 'json'));
  expect(lines.at(-1)).toMatchObject({ type: 'result', state: 'SUCCEEDED' });
});
