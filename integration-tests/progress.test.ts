import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { jsonLines, temporaryFolder, until, useCluster } from './harness.ts';

const cluster = useCluster();

/** Reports the steps in `steps`, and ends when the file `end` exists. */
const PROGRAM = `
const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { reportFile } = JSON.parse(readFileSync(process.env.TONY_TASK_FILE, 'utf8'));
let last = '';
setInterval(() => {
  const step = readFileSync('FOLDER/step', 'utf8');
  if (step !== last) {
    appendFileSync(reportFile, step === '' ? '' : JSON.stringify({ type: 'progress', step: Number(step), total: 40 }) + '\\n');
    last = step;
  }
  if (existsSync('FOLDER/end')) process.exit(0);
}, 50);
`;

test('YARN shows the share of steps of a running job, which never decreases', async () => {
  const folder = await temporaryFolder();
  writeFileSync(path.join(folder, 'report.cjs'), PROGRAM.replaceAll('FOLDER', folder));
  writeFileSync(path.join(folder, 'step'), '');
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    'name: progress\nframework: none\nruntime: system\nsource: .\ncommand: node report.cjs\nheartbeat: {interval: 200ms}\nroles: {worker: {resources: {memory: 256m}}}\n',
  );
  const { stdout } = await cluster.run(['submit', '--conf', file, '--detach', '--output', 'json']);
  const id = jsonLines(stdout).find((line) => typeof line.id === 'string')?.id as string;
  const progress = async () => (await cluster.application(id)).progress;
  writeFileSync(path.join(folder, 'step'), '10');
  await until(async () => (await progress()) === 25, { describe: () => cluster.application(id) });
  expect((await cluster.run(['status', id])).stdout).toContain('step 10 (25 %)');
  writeFileSync(path.join(folder, 'step'), '5');
  const list = async () => (await cluster.run(['list'])).stdout;
  // The job's own progress is that of its newest step.
  await until(async () => (await list()).includes('5 (13 %)'), { describe: list });
  expect(await progress()).toBe(25);
  writeFileSync(path.join(folder, 'step'), '30');
  await until(async () => (await progress()) === 75, { describe: () => cluster.application(id) });
  writeFileSync(path.join(folder, 'end'), '');
  expect((await cluster.ended(id)).finalStatus).toBe('SUCCEEDED');
});
