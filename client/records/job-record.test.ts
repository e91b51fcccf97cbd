import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { jobStatus } from '../../conf/status/job-status.fixture.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { JobPlace } from './job-place.ts';
import { readConfiguration, readFinal, readRecord, readSamples } from './job-record.ts';

const ID = 'application_1_0001';
const storage = new FileStorage();

function history(files: Readonly<Record<string, string>>): { readonly place: JobPlace; readonly path: string } {
  const root = mkdtempSync(join(tmpdir(), 'tony-ts-record-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const path = join(root, ID);
  mkdirSync(path);
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(path, name), text);
  }
  return { place: { jobId: ID, user: 'alice', folder: fileUri(path) }, path };
}

const event = (at: number, message: string): string => `${JSON.stringify({ at, type: 'notice', message })}\n`;

test('keeps the first and the newest of many events, within 8 MiB', async () => {
  const detail = 'x'.repeat(1_000);
  const lines = (from: number): string => Array.from({ length: 15_000 }, (_, at) => event(from + at, detail)).join('');
  const { place } = history({ 'events-1.jsonl': lines(0), 'events-2.jsonl': lines(15_000) });
  const { entries, bytes } = await readRecord(storage, place, true);
  expect([entries[0]?.at, entries.at(-1)?.at]).toEqual([0, 29_999]);
  expect(bytes).toBeGreaterThan(7 << 20);
  expect(bytes).toBeLessThanOrEqual(8 << 20);
  expect(entries.length).toBeLessThan(9_000);
});

test('skips a line that is longer than any line an ApplicationMaster writes', async () => {
  const { place } = history({ 'events-1.jsonl': event(1, 'before') + event(2, 'x'.repeat(300_000)) + event(3, 'after') });
  expect((await readRecord(storage, place, true)).entries.map(({ at }) => at)).toEqual([1, 3]);
});

test('treats files that are larger than any file an ApplicationMaster writes as missing, without reading them', async () => {
  const { place, path } = history({ 'final.json': '', 'job.json': '', 'events-1.jsonl': '', 'metrics-1.jsonl': '' });
  for (const name of ['final.json', 'job.json', 'events-1.jsonl', 'metrics-1.jsonl']) {
    truncateSync(join(path, name), 200 << 20);
  }
  const opened: string[] = [];
  const watched = new FileStorage();
  watched.open = (uri) => {
    opened.push(uri);
    throw new Error('opened');
  };
  expect(await readRecord(watched, place, true)).toMatchObject({ final: null, frozen: null, entries: [], bytes: 0 });
  expect(await readSamples(watched, place)).toEqual({ samples: [], bytes: 0 });
  expect(await readConfiguration(watched, place)).toBeUndefined();
  expect(opened).toEqual([]);
});

test('limits the total size of the events of many attempts', async () => {
  const { place, path } = history({
    'events-1.jsonl': event(1, ''),
    'events-2.jsonl': '',
    'events-3.jsonl': '',
    'events-4.jsonl': event(4, ''),
  });
  for (const name of ['events-2.jsonl', 'events-3.jsonl']) {
    truncateSync(join(path, name), 64 << 20);
  }
  expect((await readRecord(storage, place, true)).entries.map(({ at }) => at)).toEqual([1]);
});

test('shortens the texts of final.json to the maximum that an ApplicationMaster writes', async () => {
  const long = 'x'.repeat(1 << 20);
  const status = jobStatus({ id: ID, state: 'failed', name: long, message: long, notices: [long], finishedAt: 1 });
  const { place } = history({ 'final.json': JSON.stringify({ ...status, failure: { task: null, text: long, lines: [long] } }) });
  const { final } = await readFinal(storage, place);
  expect(final).toMatchObject({ state: 'failed', name: expect.stringMatching(/^x{1023}…$/) });
  expect(JSON.stringify(final).length).toBeLessThan(80_000);
});

test('thins usage samples while reading them', async () => {
  const tasks = Array.from({ length: 100 }, (_, at) => ({
    task: `worker:${at}`,
    step: 1,
    memoryBytes: 1,
    cpuCores: 1,
    more: 'x'.repeat(50),
  }));
  const lines = Array.from({ length: 1_000 }, (_, at) => `${JSON.stringify({ at, tasks })}\n`).join('');
  const { place } = history({ 'metrics-1.jsonl': lines });
  const { samples } = await readSamples(storage, place);
  expect(samples.length).toBeLessThanOrEqual(201);
  expect(samples.length).toBeGreaterThan(100);
  expect([samples[0]?.at, samples.at(-1)?.at]).toEqual([0, 999]);
  expect(Object.keys(samples[0]?.tasks[0] ?? {})).not.toContain('more');
});

test('keeps fewer samples if their lines are long', async () => {
  const task = { task: 'worker:0', step: 1, memoryBytes: 1, cpuCores: 1 };
  const long = { task: 'x'.repeat(200_000), step: 1, memoryBytes: 1, cpuCores: 1 };
  const lines = Array.from({ length: 100 }, (_, at) => `${JSON.stringify({ at, tasks: [task, long] })}\n`).join('');
  const { place } = history({ 'metrics-1.jsonl': lines });
  const { samples, bytes } = await readSamples(storage, place);
  expect(JSON.stringify(samples).length).toBeLessThan(10_000);
  expect([samples[0]?.at, samples.at(-1)?.at, samples[0]?.tasks.length]).toEqual([0, 99, 1]);
  expect(bytes).toBeGreaterThan(200_000);
  expect(bytes).toBeLessThanOrEqual(3 << 20);
});
