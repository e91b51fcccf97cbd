import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder, until, useCluster } from '../harness.ts';

const cluster = useCluster();

const PROGRAM = `
import faulthandler, signal, time

def stuck_here():
    while True:
        time.sleep(1)

faulthandler.register(signal.SIGUSR1)
stuck_here()
`;

test('py-spy and faulthandler show where the Python program of a task is', async () => {
  const folder = await temporaryFolder();
  writeFileSync(path.join(folder, 'train.py'), PROGRAM);
  writeFileSync(path.join(folder, 'requirements.txt'), 'py-spy==0.4.3\n');
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    'name: stuck\nframework: none\nruntime: system\ncommand: python3 train.py\npython: {requirements: requirements.txt}\n' +
      'roles: {worker: {resources: {memory: 512m}}}\nmaster: {resources: {memory: 512m}}\n',
  );
  const id = (await cluster.run(['submit', '--conf', file, '--detach', '--quiet'])).stdout.trim();
  const inTask = (script: string) => cluster.run(['exec', id, 'worker:0', '--', 'sh', '-c', script]);
  // The commands of docs/inside-a-job.md.
  const dump = await until(
    async () => {
      const { stdout } = await inTask('py-spy dump --pid $(pgrep -P $PPID python)');
      return stdout.includes('stuck_here') && stdout;
    },
    { describe: async () => await inTask('py-spy dump --pid $(pgrep -P $PPID python)') },
  );
  expect(dump).toMatch(/stuck_here \(train\.py:6\)\n +<module> \(train\.py:9\)/);
  expect(await inTask('kill -USR1 $(pgrep -P $PPID python)')).toMatchObject({ exitCode: 0 });
  await until(async () => /line 6 in stuck_here/.test((await cluster.run(['logs', id, 'worker:0'])).stderr), { describe: 'the stack' });
  await cluster.run(['kill', id, '--yes']);
});
