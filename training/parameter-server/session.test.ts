import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, expect, test } from 'vitest';
import type { TonyError } from '../../conf/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { CheckpointStore } from '../checkpoint-store.ts';
import type { Ask } from './messages.ts';
import { type Client, Session } from './session.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});
beforeAll(async () => {
  await tf.setBackend('cpu');
});

/** What a worker hears. */
class Listening implements Client {
  readonly rank = 0;
  readonly held: number[] = [];
  readonly answers = new Map<number, object>();

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

function start(): { session: Session; client: Listening } {
  const session = new Session({
    ...{ tf, storage: new FileStorage(), index: 0, worldSize: 1, replaceMs: 60_000, joinMs: 60_000 },
    onNotice: () => {},
  });
  cleanups.push(() => session.dispose());
  const client = new Listening();
  session.attach(client);
  return { session, client };
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'session-'));
  cleanups.push(() => rm(path, { recursive: true, force: true }));
  return path;
}

const PREPARE: Extract<Ask, { ask: 'prepare' }> = {
  ask: 'prepare',
  variables: [{ name: 'weight', tensor: 'model:0:weight', shape: [2] }],
  pieces: [{ variable: 0, from: 0, count: 2 }],
  optimizer: { className: 'SGD', config: { learningRate: 0.1 } },
  staleness: null,
  position: null,
  restore: null,
};
const WEIGHTS = new Uint8Array(new Float32Array([1, 2]).buffer);
const NOTHING = new Uint8Array(0);

test('a worker is held while its server reads and writes checkpoints', async () => {
  const { session, client } = start();
  const dir = fileUri(await folder());
  const store = new CheckpointStore(new FileStorage(), dir);
  const origin = { applicationId: 'application_1_0001', generation: 1 };
  const during = async (id: number, message: Ask, body = NOTHING) => {
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
  const position = { step: 5, epoch: 0, examples: 5, iterations: 0, seed: 1, data: null, final: false };
  await store.commit(pending, position, [(written as { shard: Parameters<typeof store.commit>[2][number] }).shard]);

  const next = start();
  const checkpoint = await store.openCheckpoint(5);
  const handled = next.session.handle(next.client, 1, { ...PREPARE, restore: { dir, checkpoint, iterations: 0 } }, NOTHING);
  next.session.holdWaiting();
  expect(next.client.held).toEqual([1]);
  await handled;
});

test('what is being written is kept, however many captures follow', async () => {
  const { session, client } = start();
  const dir = fileUri(await folder());
  const store = new CheckpointStore(new FileStorage(), dir);
  await session.handle(client, 1, PREPARE, WEIGHTS);
  await session.handle(client, 2, { ask: 'open' }, NOTHING);
  await session.handle(client, 3, { ask: 'capture', step: 1, writing: null }, NOTHING);
  for (let step = 2; step < 10; step++) {
    await session.handle(client, 3, { ask: 'capture', step, writing: 1 }, NOTHING);
  }
  const pending = await store.beginSave(1, { applicationId: 'application_1_0001', generation: 1 });
  const write = async (step: number) => await session.handle(client, 4, { ask: 'write', step, dir, pending, index: 0, count: 1 }, NOTHING);
  await write(1);
  await write(9);
  await expect(write(8)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
});
