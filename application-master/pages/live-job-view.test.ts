import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { FrozenJob } from '../../conf/job.ts';
import { jobInfo } from '../../conf/status/job-info.ts';
import { jobStatus, taskStatus } from '../../conf/status/job-status.fixture.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import type { EarlierAttempt } from '../records/job-files.ts';
import { TaskLogs } from '../records/task-logs.ts';
import { LiveJobView } from './live-job-view.ts';

const MASTER = { node: 'node9', memoryBytes: 1, cpuCores: 0, latenessMs: 0 };

async function open(
  change: { status?: () => JobStatus; attempt?: number; earlier?: () => Promise<readonly EarlierAttempt[]> } = {},
): Promise<{ view: LiveJobView; folder: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'live-view-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const frozen = { job: { env: { API_TOKEN: 'x' } }, cluster: { kind: 'local', directory: folder }, user: 'alice' } as unknown as FrozenJob;
  const logs = new TaskLogs({ frozen, hadoop: null, logDirs: `${folder}/none,${folder}/master` });
  const view = new LiveJobView({
    frozen,
    attempt: change.attempt ?? 1,
    status: change.status ?? (() => jobStatus()),
    master: () => MASTER,
    scalars: { charts: async () => ({ runs: [], message: 'none' }) },
    logs,
    history: { earlier: change.earlier ?? (async () => []), sampled: () => {} },
    log: pino({ level: 'silent' }),
    now: () => 5,
  });
  onTestFinished(() => view.close());
  return { view, folder };
}

async function write(folder: string, container: string, file: string, content: string): Promise<void> {
  await mkdir(path.join(folder, container), { recursive: true });
  await writeFile(path.join(folder, container, file), content);
}

test('the status includes the ApplicationMaster, and is computed once for many viewers', async () => {
  const { view } = await open();
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const status = await view.status();
  expect(status).toEqual(jobInfo(jobStatus({ master: MASTER })));
  expect(await view.status()).toBe(status);
  expect(await view.configuration()).toMatchObject({ job: { env: { API_TOKEN: '***' } } });
  expect(await view.scalars()).toEqual({ runs: [], message: 'none' });
});

test('events of earlier attempts precede the events of this attempt, as soon as they can be read', async () => {
  let isThere = false;
  const entries = [{ at: 1, type: 'before', role: 'worker', index: 0, containerId: 'container_1_0001_01_000009', node: 'n1:1' }];
  const { view, folder } = await open({
    attempt: 2,
    status: () => jobStatus({ tasks: [taskStatus({ containerId: null, node: null })] }),
    earlier: async () => {
      if (!isThere) {
        throw new Error('away');
      }
      return [{ attempt: 1, entries, samples: [{ at: 3, tasks: [] }] }];
    },
  });
  view.recorded({ at: 2, type: 'after' });
  expect(await view.events(0)).toEqual({ entries: [], next: 0 });
  isThere = true;
  const page = await view.events(0);
  expect(page.entries.map(({ type }) => type)).toEqual(['before', 'after']);
  expect(await view.events(page.next)).toEqual({ entries: [], next: page.next });
  expect((await view.usage(0)).samples).toHaveLength(1);
  // A task without a container shows the log of its last container.
  await write(folder, 'container_1_0001_01_000009/logs', 'stderr', 'the end');
  expect(await view.log('worker:0', 'stderr', 3)).toEqual({ text: 'end', skipped: 4 });
  expect(await view.log('container_1_0001_01_000009', 'stderr', 100)).toEqual({ text: 'the end', skipped: 0 });
});

test('serves logs of tasks and of the ApplicationMaster, and none for unknown containers', async () => {
  const { view, folder } = await open();
  await write(folder, 'container_1_0001_01_000002/logs', 'stdout', 'größer');
  await write(folder, 'master', 'tony.log', 'm');
  expect(await view.log('worker:0', 'stdout', 100)).toEqual({ text: 'größer', skipped: 0 });
  // The second byte of ß and of ö: the log must not start with a partial character.
  expect(await view.log('worker:0', 'stdout', 3)).toEqual({ text: 'er', skipped: 6 });
  expect(await view.log('worker:0', 'stderr', 3)).toBeNull();
  expect(await view.log('master', 'tony.log', 3)).toEqual({ text: 'm', skipped: 0 });
  expect(await view.log('worker:7', 'stdout', 3)).toBeNull();
  expect(await view.log('container_1_0001_01_000077', 'stdout', 3)).toBeNull();
});
