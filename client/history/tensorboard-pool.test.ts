import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { PooledTensorBoard, TensorBoardPool } from './tensorboard-pool.ts';

const MINUTE = 60_000;
let now = 0;
let living: string[] = [];
let pool: TensorBoardPool;

function open(most = 2): TensorBoardPool {
  now = 0;
  living = [];
  pool = new TensorBoardPool({
    folder: '/none',
    log: pino({ level: 'silent' }),
    most,
    now: () => now,
    start: async ({ summaryDir }) => {
      if (summaryDir === 'bad') {
        throw new Error('no Python');
      }
      living.push(summaryDir);
      return {
        status: () => ({ state: 'ready', message: '' }),
        connect: () => new PassThrough(),
        close: async () => {
          living = living.filter((each) => each !== summaryDir);
        },
      };
    },
  });
  return pool;
}

afterEach(() => pool.close());

test('the pool starts one TensorBoard per opened job', async () => {
  const target = new PooledTensorBoard(open());
  expect(target.status().state).toBe('waiting');
  expect(target.connect).toBeNull();
  target.wake('a', 'alice');
  target.wake('a', 'alice');
  await expect.poll(() => target.status().state).toBe('ready');
  expect(living).toEqual(['a']);
  expect(target.connect?.()).toBeInstanceOf(PassThrough);
});

test('the pool replaces a TensorBoard without recent visits, but not a TensorBoard in use', async () => {
  open();
  expect([pool.wake('a', 'a'), pool.wake('b', 'b')]).toEqual(['', '']);
  expect(pool.wake('c', 'c')).toContain('2 TensorBoards are in use');
  now += 2 * MINUTE;
  pool.wake('a', 'a');
  expect(pool.wake('c', 'c')).toBe('');
  await expect.poll(() => living).toEqual(['a', 'c']);
});

test('close() also waits for TensorBoards that are already stopping', async () => {
  open();
  pool.wake('a', 'a');
  await expect.poll(() => living).toEqual(['a']);
  now += 60 * MINUTE;
  pool.endIdle();
  expect(living).toEqual(['a']);
  await pool.close();
  expect(living).toEqual([]);
});

test('TensorBoards stop when they are idle, and when the pool closes', async () => {
  open();
  pool.wake('a', 'a');
  pool.wake('b', 'b');
  await expect.poll(() => living).toHaveLength(2);
  now += 9 * MINUTE;
  pool.connect('b')?.();
  now += 2 * MINUTE;
  pool.endIdle();
  await expect.poll(() => living).toEqual(['b']);
  await pool.close();
  expect(living).toEqual([]);
  expect(pool.wake('a', 'a')).toBe('The server is shutting down.');
});

test('a TensorBoard that cannot start reports the reason and occupies no slot', async () => {
  const target = new PooledTensorBoard(open(1));
  target.wake('bad', 'alice');
  await expect.poll(() => target.status()).toEqual({ state: 'unavailable', message: 'no Python' });
  expect(target.connect).toBeNull();
  expect(pool.wake('a', 'a')).toBe('');
  await expect.poll(() => living).toEqual(['a']);
});

test('the pool replaces a TensorBoard in permanent use after its minimum time, preferably a TensorBoard of the same user', async () => {
  open();
  pool.wake('a', 'mallory');
  pool.wake('b', 'bob');
  for (let minute = 0; minute < 9; minute++) {
    now += MINUTE / 2;
    for (const each of ['a', 'b']) {
      pool.wake(each, 'mallory');
    }
    now += MINUTE / 2;
    expect(pool.wake('c', 'carol')).toContain('in use');
    for (const each of ['a', 'b']) {
      pool.wake(each, 'mallory');
    }
  }
  now += MINUTE / 2;
  for (const each of ['a', 'b']) {
    pool.wake(each, 'mallory');
  }
  now += MINUTE / 2;
  expect(pool.wake('c', 'carol')).toBe('');
  await expect.poll(() => living).toEqual(['b', 'c']);
  for (let minute = 0; minute < 10; minute++) {
    now += MINUTE / 2;
    for (const each of ['b', 'c']) {
      pool.wake(each, 'mallory');
    }
    now += MINUTE / 2;
  }
  expect(pool.wake('d', 'carol')).toBe('');
  await expect.poll(() => living).toEqual(['b', 'd']);
});
