import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { runCommand } from '../command.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';
import { importOptions, MIGRATION_CASES, resultsIn, writeMigration } from '../long/tony-migration-cases.ts';

/** Runs some of the converted TonY jobs on this machine. `long/tony-migration.test.ts` runs all of them on a cluster. */

test.each(MIGRATION_CASES.filter(({ quick }) => quick))('$name', async (each) => {
  const folder = await temporaryFolder();
  const out = writeMigration(folder, each);
  const at = { cwd: folder, env: { TONY_LOCAL_DIR: path.join(folder, 'root'), HADOOP_CONF_DIR: undefined } };
  const imported = await runCommand(['import', 'tony.xml', ...importOptions(each), '--to', 'job.yaml'], at);
  expect(imported).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining('Still needed') });
  const { stdout, exitCode } = await runCommand(['submit', '--local', '--conf', 'job.yaml', '--output', 'json'], at);
  const result = jsonLines(stdout).at(-1) as { state: string; id: string; message: string };
  expect(result.state, result.message).toBe(each.succeeds ? 'succeeded' : 'failed');
  expect(exitCode).toBe(each.succeeds ? 0 : 1);
  expect(resultsIn(out)).toEqual(each.results);
  const shown = await runCommand(['status', result.id, '--output', 'json'], at);
  const [status] = jsonLines(shown.stdout) as unknown as [JobStatus];
  expect(Object.fromEntries(status.tasks.map(({ role, index, state }) => [`${role}:${index}`, state]))).toMatchObject(each.tasks);
});
