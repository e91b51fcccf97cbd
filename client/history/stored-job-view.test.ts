import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { LocalHistory } from './local-history.ts';
import { StoredJobView } from './stored-job-view.ts';

const ID = 'local_1_0001';

async function viewOf(files: Readonly<Record<string, string>>): Promise<StoredJobView> {
  const root = mkdtempSync(join(tmpdir(), 'tony-ts-view-'));
  const folder = join(root, 'history', ID);
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
  }
  const store = new LocalHistory(root, 'alice');
  const place = await store.place('alice', ID);
  if (place === null) {
    throw new Error('the history is missing');
  }
  const view = new StoredJobView({ store, place, anywhere: false, log: pino({ level: 'silent' }) });
  onTestFinished(() => {
    view.close();
    store.close();
    rmSync(root, { recursive: true, force: true });
  });
  return view;
}

test('cached samples count towards the memory use of a job view', async () => {
  const tasks = Array.from({ length: 100 }, (_, index) => ({ task: `worker:${index}`, step: 1, memoryBytes: 1, cpuCores: 1 }));
  const lines = Array.from({ length: 50 }, (_, at) => `${JSON.stringify({ at: at + 1, tasks })}\n`).join('');
  const view = await viewOf({ 'metrics-1.jsonl': lines });
  await view.status();
  const before = view.bytes;
  const { samples } = await view.usage(0);
  expect(samples).toHaveLength(50);
  expect(view.bytes - before).toBeGreaterThan(500_000);
});

test('tasks that appear only in events count towards the memory use of a job view', async () => {
  const event = (index: number): string => `${JSON.stringify({ at: 1, type: 'task-requested', role: 'w', index })}\n`;
  const view = await viewOf({ 'events-1.jsonl': Array.from({ length: 1_000 }, (_, index) => event(index)).join('') });
  expect((await view.status()).tasks).toHaveLength(1_000);
  expect(view.bytes).toBeGreaterThan(300_000);
});
