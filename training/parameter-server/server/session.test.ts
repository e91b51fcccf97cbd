import { readdir } from 'node:fs/promises';
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import { folder } from '../../../contract/testing/folder.ts';
import type { TonyError } from '../../../platform/errors.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import type { ServerAsk } from '../protocol/messages.ts';
import { ServerSession } from './session.ts';
import type { Client } from './worker-request.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

/** A client that records the messages to its worker. */
class Listening implements Client {
  readonly rank: number;
  readonly held: number[] = [];
  readonly answers = new Map<number, object>();

  constructor(rank = 0) {
    this.rank = rank;
  }

  answer(id: number, head: object): void {
    this.answers.set(id, head);
  }

  refuse(id: number, error: TonyError): void {
    this.answers.set(id, error);
  }

  hold(id: number): void {
    this.held.push(id);
  }
}

function start(checkpointDir: string | null = null, worldSize = 1): { session: ServerSession; client: Listening } {
  const session = new ServerSession({
    ...{ tf, storage: new FileStorage(), checkpointDir, index: 0, worldSize, replaceMs: 60_000, joinMs: 60_000 },
    onNotice: () => {},
  });
  onTestFinished(() => session.dispose());
  const client = new Listening();
  session.attach(client);
  return { session, client };
}

const PREPARE: Extract<ServerAsk, { ask: 'prepare' }> = {
  ask: 'prepare',
  addition: {
    first: 0,
    variables: [{ name: 'weight', tensor: 'model:0:weight', shape: [2] }],
    pieces: [{ variable: 0, from: 0, count: 2 }],
    optimizers: [
      {
        index: 0,
        description: { className: 'SGD', config: { learningRate: 0.1 } },
        variables: [0],
        state: { iterations: 0, scalars: {}, slots: [] },
      },
    ],
  },
  staleness: null,
  position: null,
  restore: null,
};
const WEIGHTS = new Uint8Array(new Float32Array([1, 2]).buffer);
const NOTHING = new Uint8Array(0);

test('a server sends `held` to its worker while it reads or writes a checkpoint', async () => {
  const dir = fileUri(await folder());
  const { session, client } = start(dir);
  const store = new CheckpointStore(new FileStorage(), dir);
  const origin = { jobId: 'application_1_0001', generation: 1 };
  const during = async (id: number, message: ServerAsk, body = NOTHING) => {
    client.held.length = 0;
    const handled = session.handle(client, id, message, body);
    session.holdWaiting();
    expect(client.held).toEqual([id]);
    await handled;
    session.holdWaiting();
    expect(client.held).toEqual([id]);
    return client.answers.get(id);
  };
  await during(1, PREPARE, WEIGHTS);
  await session.handle(client, 2, { ask: 'open' }, NOTHING);
  await during(3, { ask: 'capture', step: 5, writing: null });
  const pending = await store.beginSave(5, origin);
  const written = await during(4, { ask: 'write', step: 5, dir, pending, index: 0, count: 1 });
  const position = { step: 5, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 5, iterations: 0, seed: 1, data: null, final: false };
  await store.commit(pending, position, [(written as { shard: Parameters<typeof store.commit>[2][number] }).shard]);

  const next = start(dir);
  const handled = next.session.handle(next.client, 1, { ...PREPARE, restore: { dir, step: 5, iterations: 0 } }, NOTHING);
  next.session.holdWaiting();
  expect(next.client.held).toEqual([1]);
  await handled;
});

test('a server keeps the copy that it is writing while further captures arrive', async () => {
  const dir = fileUri(await folder());
  const { session, client } = start(dir);
  const store = new CheckpointStore(new FileStorage(), dir);
  await session.handle(client, 1, PREPARE, WEIGHTS);
  await session.handle(client, 2, { ask: 'open' }, NOTHING);
  await session.handle(client, 3, { ask: 'capture', step: 1, writing: null }, NOTHING);
  for (let step = 2; step < 10; step++) {
    await session.handle(client, 3, { ask: 'capture', step, writing: 1 }, NOTHING);
  }
  const pending = await store.beginSave(1, { jobId: 'application_1_0001', generation: 1 });
  const write = async (step: number) => await session.handle(client, 4, { ask: 'write', step, dir, pending, index: 0, count: 1 }, NOTHING);
  await write(1);
  await write(9);
  await expect(write(8)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
});

test('a server reads and writes only the checkpoint folder of its job', async () => {
  const own = fileUri(await folder());
  const other = await folder();
  const { session, client } = start(own);
  const store = new CheckpointStore(new FileStorage(), own);
  await session.handle(client, 1, PREPARE, WEIGHTS);
  await session.handle(client, 2, { ask: 'open' }, NOTHING);
  await session.handle(client, 3, { ask: 'capture', step: 5, writing: null }, NOTHING);
  const pending = await store.beginSave(5, { jobId: 'application_1_0001', generation: 1 });
  const write = { ask: 'write', step: 5, dir: fileUri(other), pending, index: 0, count: 1 } as const;
  await expect(session.handle(client, 4, write, NOTHING)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  for (const uri of [`${fileUri(other)}/step-5-a`, `${pending.uri}/../../../../${other.split('/').at(-1)}/step-5-a`]) {
    const elsewhere = { ...write, dir: own, pending: { ...pending, uri } };
    await expect(session.handle(client, 5, elsewhere, NOTHING)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  }
  expect(await readdir(other)).toEqual([]);
  const restore = { dir: fileUri(other), step: 1, iterations: 0 };
  await expect(start(own).session.handle(client, 1, { ...PREPARE, restore }, NOTHING)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
});

describe('workers that pause for a checkpoint', () => {
  const PUSH = { ask: 'push' as const, optimizer: 0, hasExamples: false, present: [] as number[], learningRate: 0.1 };
  const position = { step: 3, phase: { name: 'loop-1', start: 0 }, epoch: 0, examples: 0, iterations: 0, seed: 1, final: false };
  const meet = { ask: 'meet', step: 3, position } as const;

  async function inStep() {
    const { session, client: chief } = start(null, 2);
    const other = new Listening(1);
    session.attach(other);
    await session.handle(chief, 1, { ...PREPARE, staleness: 0 }, WEIGHTS);
    await session.handle(chief, 2, { ask: 'open' }, NOTHING);
    const enter = { ask: 'enter' as const, chief: false, step: 0, first: 0, variables: [{ name: 'weight', shape: [2] }] };
    const optimizer = { index: 0, className: 'SGD', variables: [0] };
    for (const client of [chief, other]) {
      await session.handle(client, 3, { ...enter, optimizer }, NOTHING);
      await session.handle(client, 4, { ask: 'pull', now: false, all: false }, NOTHING);
    }
    return { session, chief, other };
  }

  test('paused workers wait for each other, and then for the chief to end the pause', async () => {
    const { session, chief, other } = await inStep();
    await session.handle(chief, 5, meet, NOTHING);
    expect(chief.answers.has(5)).toBe(false);
    await session.handle(other, 5, meet, NOTHING);
    expect(chief.answers.has(5)).toBe(true);
    expect(other.answers.has(5)).toBe(false);
    await session.handle(chief, 6, { ask: 'part', step: 3 }, NOTHING);
    expect(other.answers.has(5)).toBe(true);
    await session.handle(chief, 7, { ask: 'positions' }, NOTHING);
    expect(chief.answers.get(7)).toEqual({ positions: [position, position] });
  });

  test('paused workers do not wait for a worker whose next push depends on them, as after a replacement', async () => {
    const { session, chief, other } = await inStep();
    await session.handle(chief, 5, meet, NOTHING);
    await session.handle(other, 5, PUSH, NOTHING);
    expect(other.answers.has(5)).toBe(false);
    expect(chief.answers.has(5)).toBe(true);
    const again = await inStep();
    await again.session.handle(again.other, 5, meet, NOTHING);
    expect(again.other.answers.has(5)).toBe(false);
    await again.session.handle(again.chief, 5, PUSH, NOTHING);
    expect(again.other.answers.has(5)).toBe(true);
  });

  test.each([false, true])('paused workers do not wait for a disconnected worker (announced: %j)', async (announced) => {
    const { session, chief, other } = await inStep();
    await session.handle(chief, 5, meet, NOTHING);
    session.detach(other, announced);
    expect(chief.answers.has(5)).toBe(true);
    const again = await inStep();
    await again.session.handle(again.other, 5, meet, NOTHING);
    again.session.detach(again.chief, announced);
    expect(again.other.answers.has(5)).toBe(true);
  });
});

test('every worker receives the first reason of a signal', async () => {
  const { session, client } = start(null, 2);
  const other = new Listening(1);
  session.attach(other);
  await session.handle(other, 1, { ask: 'signal', signal: 1, reason: 'good enough' }, NOTHING);
  await session.handle(client, 1, { ask: 'signal', signal: 1, reason: 'too late' }, NOTHING);
  expect(client.answers.get(1)).toEqual({ signalled: 2, reason: 'good enough' });
});
