import { once } from 'node:events';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { encodeFrame, REQUEST_LIMITS, readFrame } from '../../../contract/services/service-frame.ts';
import { folderWith } from '../testing/files.ts';
import { TaskPieces } from './piece-source.ts';

type Answers = Readonly<Record<string, readonly unknown[]>>;

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Makes this process a task whose executor gives these answers, the last one again and again. Returns the requests that it receives. */
async function task(taskRank: number | null, answers: Answers = {}): Promise<[service: string, question: unknown][]> {
  const services = await folderWith();
  const asked: [string, unknown][] = [];
  const counts = new Map<string, number>();
  const server = createServer((socket) => {
    const respond = async () => {
      const { head, body } = await readFrame(socket, REQUEST_LIMITS);
      const { service } = JSON.parse(Buffer.from(head).toString()) as { service: string };
      asked.push([service, JSON.parse(Buffer.from(body).toString())]);
      const count = counts.get(service) ?? 0;
      counts.set(service, count + 1);
      const given = answers[service] ?? [];
      socket.end(encodeFrame({ head: Buffer.from(JSON.stringify({ answer: given[count] ?? given.at(-1) })), body: Buffer.alloc(0) }));
    };
    respond().catch(() => socket.destroy());
  });
  await once(server.listen(path.join(services, 'socket')), 'listening');
  onTestFinished(() => void server.close());
  const context = {
    ...{ version: 1, jobId: 'local_1_1', jobName: 'job', role: 'ps', index: 0, instances: 2, taskRank, taskWorldSize: 2, generation: 1 },
    ...{ members: [], listener: null, ringKey: '', strategy: { type: 'all-reduce' }, wire: { dtype: 'float32', security: 'none' } },
    ...{ parameterServers: [], checkpoint: { dir: 'c', everySteps: 1, everyMs: null, keep: 1 }, summaryDir: 's', outputDir: 'o', data: {} },
    ...{ user: 'alice', hadoop: null, s3: null, reportFile: 'r', checkpointOrder: null, services, memoryBytes: null },
  };
  const folder = await folderWith({ 'task.json': JSON.stringify(context) });
  vi.stubEnv('TONY_TASK_FILE', path.join(folder, 'task.json'));
  return asked;
}

const { signal } = new AbortController();
const opening = { format: 'arrow', partitions: 3, epochs: 2, shards: 'equal', seed: 7 };
const piece = { path: '/piece', epoch: 1, partition: 4, records: 10, skip: 3 };

test('a rank waits for the source, and then reads its pieces from a position to the end', async () => {
  const asked = await task(1, {
    'pieces.kind': ['wait', 'partitions'],
    'pieces.open': [opening],
    'pieces.next': [piece, 'wait', piece, 'over'],
  });
  const source = new TaskPieces('train');
  expect(await source.opening(signal)).toEqual({ format: 'arrow', partitions: 3, epochs: 2, seed: 7 });
  const read: unknown[] = [];
  for await (const each of source.pieces({ epoch: 1, records: 5 }, signal)) {
    read.push(each);
  }
  expect(read).toEqual([piece, piece]);
  const reader = { feed: 'train', rank: 1 };
  expect(asked.slice(1)).toEqual([
    ['pieces.kind', { feed: 'train', worldSize: 2 }],
    ['pieces.open', { ...reader, worldSize: 2, position: null }],
    ['pieces.open', { ...reader, worldSize: 2, position: { epoch: 1, records: 5 } }],
    // A request for the next piece tells that the program has read the previous one.
    ...[0, 1, 1, 2].map((at) => ['pieces.next', { ...reader, at }]),
  ]);
});

test('a rank waits for the next micro-batch of a stream, and the stream ends', async () => {
  const asked = await task(1, {
    'pieces.kind': ['wait', 'stream', 'partitions'],
    'pieces.next-batch': ['wait', { query: 'q', number: 4, feed: 'train.batch-4' }, 'over'],
    'pieces.open': [opening],
  });
  const source = new TaskPieces('train');
  expect(await source.isStream(signal)).toBe(true);
  const question = { query: 'q', next: 3, saved: 2 };
  const found = await source.nextBatch(question, signal);
  expect(found).toMatchObject({ query: 'q', number: 4 });
  expect(await found?.pieces.opening(signal)).toMatchObject({ partitions: 3 });
  expect(await source.nextBatch(question, signal)).toBe(null);
  expect(asked).toContainEqual(['pieces.next-batch', { feed: 'train', rank: 1, ...question }]);
  expect(asked).toContainEqual(['pieces.open', { feed: 'train.batch-4', rank: 1, worldSize: 2, position: null }]);
});

test.each<readonly [string, number | null, Answers, string]>([
  ['a role without ranks', null, {}, 'the tasks of role ps have no rank, so they cannot read the feed train'],
  ['single records', 0, { 'pieces.kind': ['records'] }, 'the feed train contains single records, not a DataFrame'],
  [
    'an RDD',
    0,
    { 'pieces.kind': ['partitions'], 'pieces.open': [{ ...opening, format: 'pickle' }] },
    'the feed train contains an RDD of Python objects, which a program in TypeScript cannot read',
  ],
])('%s is an error', async (_, rank, answers, message) => {
  await task(rank, answers);
  await expect(new TaskPieces('train').opening(signal)).rejects.toMatchObject({ code: 'USAGE', message });
});

test('a rank reads no share but its own', async () => {
  await task(1);
  const source = new TaskPieces('train');
  source.check({ index: 1, count: 2 });
  source.check({ index: 0, count: 1 });
  expect(() => source.check({ index: 0, count: 2 })).toThrow('rank 1 of 2 cannot read share 0 of 2 of the feed train');
  expect(() => source.check({ index: 1, count: 4 })).toThrow('rank 1 of 2 cannot read share 1 of 4');
});
