import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { frozen, workers } from '../../conf/job.fixture.ts';
import type { Container } from '../job/state/events.ts';
import { LocalNegotiator } from './local-negotiator.ts';

test('closing removes the files that containers copied to this machine', async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'tony-negotiator-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const worker = workers({ instances: 1 });
  let allocated = (_containers: readonly Container[]): void => {};
  const given = new Promise<readonly Container[]>((resolve) => (allocated = resolve));
  const ended: string[] = [];
  const negotiator = new LocalNegotiator({
    frozen: { ...frozen({ roles: [worker] }), jobId: 'local_1_0001', cluster: { kind: 'local', directory } },
    attempt: 1,
    listener: {
      allocated,
      askRefused: () => {},
      launchFailed: () => {},
      ended: (_, end) => ended.push(end),
      preempting: () => {},
      cluster: () => {},
      fenced: () => {},
    },
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
  });
  expect(await negotiator.register()).toMatchObject({ queue: frozen({ roles: [worker] }).job.queue });
  negotiator.ask(worker, 1);
  const [container] = (await given) as readonly [Container];
  const folder = path.join(directory, container.id);
  negotiator.launch(container.id, { command: 'sleep 600', environment: {}, secrets: new Map() });
  await expect.poll(() => existsSync(path.join(folder, 'container.json'))).toBe(true);
  const scratch = path.join(folder, 'work', 'scratch');
  await mkdir(scratch);
  for (let file = 0; file < 1000; file++) {
    await writeFile(path.join(scratch, `block-${file}`), '');
  }

  await negotiator.finish({ state: 'killed', message: '' });
  await negotiator.close();
  expect(existsSync(scratch)).toBe(false);
  expect(await readdir(folder)).toEqual(['logs', 'work']);
  expect(ended).toEqual(['stopped-by-master']);
});
