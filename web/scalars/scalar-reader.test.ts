import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodeFileVersion, encodeRestart, encodeScalars } from '../../contract/summary/event-file.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { ScalarCharts } from '../job-view.ts';
import { ScalarReader } from './scalar-reader.ts';

let folder = '';
let reader: ScalarReader | null = null;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'scalars-'));
});
afterEach(async () => {
  reader?.close();
  await rm(folder, { recursive: true });
});

/** By default, the clock is constant: reads take no time and the next read follows soon. */
function open({ storage = new FileStorage(), clock = () => 0 }: { storage?: Storage; clock?: () => number } = {}): ScalarReader {
  reader = new ScalarReader({ storage, dir: fileUri(folder), log: pino({ level: 'silent' }), maxWaitMs: 60_000, pauseMs: 50, clock });
  return reader;
}

async function write(run: string, name: string, ...records: Buffer[]): Promise<void> {
  await mkdir(path.join(folder, run), { recursive: true });
  await writeFile(path.join(folder, run, `events.out.tfevents.${name}`), Buffer.concat(records));
}

const loss = (step: number, value: number = step): Buffer => encodeScalars(1000 + step, step, [{ tag: 'loss', value }]);
const stepsOf = (charts: ScalarCharts): number[][] => charts.runs.flatMap(({ scalars }) => scalars.map(({ steps }) => [...steps]));

test('every folder with event files is a run', async () => {
  await write('.', '1', encodeFileVersion(1), loss(1));
  await write('train/deep', '1', encodeFileVersion(1), loss(2), loss(3));
  await write(
    'test',
    '1',
    encodeFileVersion(1),
    encodeScalars(5, 1, [
      { tag: 'b', value: 1 },
      { tag: 'a', value: 2 },
    ]),
  );
  await mkdir(path.join(folder, 'empty'));
  await writeFile(path.join(folder, 'test', 'notes.txt'), 'no events');
  const { runs, message } = await open().charts();
  expect(message).toBe('');
  expect(runs.map(({ name, scalars }) => [name, ...scalars.map(({ tag }) => tag)])).toEqual([
    ['.', 'loss'],
    ['test', 'a', 'b'],
    ['train/deep', 'loss'],
  ]);
  expect(runs[2]?.scalars[0]).toEqual({ tag: 'loss', steps: [2, 3], times: [1002, 1003], values: [2, 3] });
});

test('a folder that does not exist yet has no curves', async () => {
  const scalars = new ScalarReader({ storage: new FileStorage(), dir: fileUri(`${folder}/none`), log: pino({ level: 'silent' }) });
  expect(await scalars.charts()).toEqual({ runs: [], message: '' });
  scalars.close();
});

test('the reader reads only new bytes, and each record once it is complete', async () => {
  const opened: (number | undefined)[] = [];
  class Watched extends FileStorage {
    override open(uri: string, range?: { offset?: number; length?: number }): ReturnType<Storage['open']> {
      opened.push(range?.offset);
      return super.open(uri, range);
    }
  }
  const third = loss(3);
  await write('train', '1', encodeFileVersion(1), loss(1), loss(2), third.subarray(0, 10));
  const scalars = open({ storage: new Watched() });
  const before = await scalars.charts();
  expect(stepsOf(before)).toEqual([[1, 2]]);
  expect(await scalars.charts()).toBe(before);
  await appendFile(path.join(folder, 'train', 'events.out.tfevents.1'), third.subarray(10));
  await write('train', '2', encodeFileVersion(1), loss(4));
  await expect.poll(async () => stepsOf(await scalars.charts())).toEqual([[1, 2, 3, 4]]);
  expect(opened).toEqual([0, encodeFileVersion(1).length + 2 * loss(1).length + 10, 0]);
});

test('a restarted run replaces the points that it wrote after its checkpoint', async () => {
  await write('train', '1', encodeFileVersion(1), ...[1, 2, 3, 4].map((step) => loss(step)));
  await write('train', '2', encodeFileVersion(1), encodeRestart(1, 3), loss(3, 30));
  await write('unsaid', '1', encodeFileVersion(1), ...[1, 2, 3, 4].map((step) => loss(step)));
  await write('unsaid', '2', encodeFileVersion(1), loss(2, 20));
  const { runs } = await open().charts();
  expect(runs.map(({ scalars }) => scalars[0]?.values)).toEqual([
    [1, 2, 30],
    [1, 20],
  ]);
});

test('the reader skips damaged records and reports their number', async () => {
  const bad = loss(2);
  bad[20] = (bad[20] as number) ^ 1;
  const worse = loss(4);
  worse[0] = 99;
  await write('train', '1', encodeFileVersion(1), loss(1), bad, loss(3), worse, loss(5));
  await write('train', '2', encodeFileVersion(1), loss(6));
  const { runs, message } = await open().charts();
  expect(runs[0]?.scalars[0]?.steps).toEqual([1, 3, 6]);
  expect(message).toBe('2 damaged records were skipped.');
});

test('the reader reports unreachable storage and keeps the points it has read', async () => {
  let away = false;
  class Flaky extends FileStorage {
    override list(uri: string): ReturnType<Storage['list']> {
      return away ? Promise.reject(new Error('connection refused')) : super.list(uri);
    }
  }
  await write('train', '1', loss(1));
  const scalars = open({ storage: new Flaky() });
  const before = await scalars.charts();
  away = true;
  await expect
    .poll(() => scalars.charts())
    .toEqual({ runs: before.runs, message: 'The summaries cannot be read at the moment: connection refused' });
});

test('the reader limits the number of curves and reports the limit', async () => {
  const many = Array.from({ length: 450 }, (_, at) => ({ tag: `t${at}`, value: at }));
  await write('train', '1', ...[1, 2, 3].map((step) => encodeScalars(1, step, many)));
  const { runs, message } = await open().charts();
  expect(runs[0]?.scalars).toHaveLength(400);
  expect(runs[0]?.scalars[7]?.steps).toEqual([1, 2, 3]);
  expect(message).toBe('Only 400 curves are shown here; TensorBoard shows all of them.');
});

test('the reader drops curves whose tag is too long', async () => {
  const values = ['a'.repeat(1024), 'b'.repeat(1025), 'c'.repeat(500_000)].map((tag) => ({ tag, value: 1 }));
  await write('.', '1', encodeFileVersion(1), ...values.map((value) => encodeScalars(5, 1, [value])));
  const { runs } = await open().charts();
  expect(runs.map(({ scalars }) => scalars.map(({ tag }) => tag.length))).toEqual([[1024]]);
});

test('the reader yields to other work every few milliseconds while it reads a long file', async () => {
  const values = Array.from({ length: 10 }, (_, at) => ({ tag: `metric/${at}`, value: at / 7 }));
  await write('train', '1', encodeFileVersion(1), ...Array.from({ length: 20_000 }, (_, step) => encodeScalars(step, step, values)));
  let now = 0;
  let [turnAt, longest] = [0, 0];
  let next = setImmediate(function turned() {
    longest = Math.max(longest, now - turnAt);
    turnAt = now;
    next = setImmediate(turned);
  });
  const { runs } = await open({ clock: () => ++now }).charts();
  clearImmediate(next);
  expect(runs[0]?.scalars).toHaveLength(10);
  expect(runs[0]?.scalars[0]?.steps.at(-1)).toBe(19_999);
  // The reader checked the clock often and yielded every 4 ms.
  expect(now).toBeGreaterThan(20_000 / 100);
  expect(longest).toBeLessThan(8);
});
