import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT } from '../command.ts';
import { jsonLines, temporaryFolder, USER, useCluster } from '../harness.ts';
import { TONY_CASES, type TonyCase } from './tony-e2e-cases.ts';

/** Converts the jobs of TonY's end-to-end tests with `tony-ts import`, and runs them on a cluster. */

const cluster = useCluster();

/** Small containers, so that all tasks of a job fit on the test cluster. */
const MEMORY = ['am', 'chief', 'worker', 'ps', 'evaluator', 'db', 'dbloader', 'sidecarexecutor'].map(
  (name) => [`tony.${name}.memory`, '512m'] as const,
);

test.each(TONY_CASES)('$name', async (each) => {
  const folder = await filesOf(each);
  const to = path.join(folder, 'job.yaml');
  const imported = await cluster.run(['import', 'tony.xml', ...each.options, '--src-dir', 'source', '--to', to], { cwd: folder });
  expect(imported).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining('Still needed') });
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', to, '--output', 'json']);
  if (each.refused !== undefined) {
    expect(stderr).toMatch(each.refused);
    expect(exitCode).toBe(2);
    return;
  }
  const result = jsonLines(stdout).at(-1) as { state: string; id: string; message: string };
  expect(result.state, result.message).toBe(each.succeeds ? 'succeeded' : 'failed');
  expect(exitCode).toBe(each.succeeds ? 0 : 1);
  expect(result.message).toMatch(each.reason ?? /.*/);
  await cluster.ended(result.id);
  const final = await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${result.id}/final.json`);
  const { tasks } = JSON.parse(final.toString()) as JobStatus;
  expect(Object.fromEntries(tasks.map(({ role, index, state }) => [`${role}:${index}`, state]))).toMatchObject(each.tasks);
});

test('docs/moving-from-tony.md names the test of each of these cases', () => {
  const page = readFileSync(path.join(ROOT, 'docs', 'moving-from-tony.md'), 'utf8');
  expect(TONY_CASES.map(({ name }) => name).filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});

/** Writes tony.xml and the files that the jobs use. */
async function filesOf({ settings }: TonyCase): Promise<string> {
  const folder = await temporaryFolder();
  const at = (name: string) => path.join(folder, name);
  const properties = [...MEMORY, ...Object.entries(settings)].map(
    ([name, value]) => `<property><name>${name}</name><value>${value.replaceAll('"', '&quot;')}</value></property>`,
  );
  writeFileSync(at('tony.xml'), `<configuration>\n${properties.join('\n')}\n</configuration>\n`);
  mkdirSync(at('source'));
  writeFileSync(at('source/check.py'), 'import os, shipped\nassert "environment" in shipped.__file__ and os.environ["ENV_CHECK"] == "1"\n');
  writeFileSync(at('content.txt'), 'content\n');
  for (const name of ['one.zip', 'two.zip', 'common.zip']) {
    execFileSync('python3', ['-m', 'zipfile', '-c', name, 'content.txt'], { cwd: folder });
  }
  execFileSync('python3', ['-m', 'venv', '--without-pip', at('venv')]);
  writeFileSync(path.join(sitePackages(at('venv')), 'shipped.py'), '');
  // Like `zip -r`, which users of TonY run, this stores copies instead of symbolic links.
  execFileSync('python3', ['-m', 'zipfile', '-c', at('venv.zip'), 'bin', 'lib', 'pyvenv.cfg'], { cwd: at('venv') });
  return folder;
}

function sitePackages(environment: string): string {
  const find = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  return execFileSync(path.join(environment, 'bin', 'python3'), ['-c', find], { encoding: 'utf8' }).trim();
}
