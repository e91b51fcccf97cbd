import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { WIRE_SECURITY } from '../../conf/job.ts';
import { spy } from '../../contract/testing/spy.ts';
import { Secret } from '../../platform/secret.ts';
import { openWorker, type ServerWorld, startServers } from './testing/server-world.ts';
import type { ParameterServerWorker } from './worker/parameter-server-worker.ts';
import { ServerGroup, type WorkerOptions } from './worker/server-group.ts';

afterEach(() => {
  vi.restoreAllMocks();
});
beforeAll(async () => {
  await tf.setBackend('cpu');
});

async function start(workers: number, servers: number, world: Partial<ServerWorld> = {}): Promise<(rank: number) => WorkerOptions> {
  return (await startServers({ workers, servers, generation: 3, ...world })).optionsOf;
}

async function open(options: WorkerOptions, run = 1): Promise<ServerGroup> {
  const group = await ServerGroup.open(options, run);
  onTestFinished(() => group.close(false));
  return group;
}

describe('a server rejects', () => {
  test.each([
    ['a worker with another key', { key: new Secret(randomBytes(32)) }, /parameter server 0 \(.*key/],
    ['a worker of an older generation', { generation: 2 }, /parameter server 0/],
    ['a worker with another world size', { worldSize: 7 }, /parameter server 0/],
    ['a worker with a rank outside the job', { rank: 5 }, /parameter server 0/],
    ['a worker with another wire.security', { security: 'encrypted' as const }, /parameter server 0/],
  ])('%s', async (_what, wrong, message) => {
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const worker = await start(2, 1);
    await expect(open({ ...worker(0), ...wrong, timeouts: { joinMs: 2000 } })).rejects.toMatchObject({
      code: 'RING_JOIN_FAILED',
      message: expect.stringMatching(message),
    });
    expect(stderr.mock.calls.some(([text]) => String(text).includes('rejected a connection'))).toBe(true);
    await expect(open(worker(0))).resolves.toBeDefined();
  });

  test('connections without a handshake, and continues to serve workers', async () => {
    vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const worker = await start(2, 1);
    const [address] = worker(0).addresses;
    const strangers = Array.from({ length: 80 }, () => connect(address as { host: string; port: number }).on('error', () => {}));
    onTestFinished(() => {
      for (const stranger of strangers) {
        stranger.destroy();
      }
    });
    const [loud] = strangers;
    const gone = new Promise((resolve) => loud?.once('close', resolve));
    loud?.write(randomBytes(500_000));
    await open(worker(1));
    await gone;
  });
});

test('a second process of a rank replaces the first process', async () => {
  const worker = await start(2, 1);
  const lost: string[] = [];
  const first = await open({ ...worker(0), onLost: (_, cause) => lost.push(cause) });
  const waiting = first.get(0, 'current');
  waiting.catch(() => {});
  const second = await open(worker(0));
  await expect.poll(() => lost).toHaveLength(1);
  await expect(waiting).rejects.toMatchObject({ code: 'PEER_LOST' });
  await expect(second.states()).resolves.toEqual(['empty']);
});

test('a server rejects a request at the wrong time and answers the next request', async () => {
  const worker = await start(1, 1);
  const group = await open(worker(0));
  await expect(group.ask(0, { ask: 'open' })).rejects.toMatchObject({ code: 'RING_MISMATCH' });
  await expect(group.ask(0, { ask: 'capture', step: 3, writing: null })).rejects.toMatchObject({ code: 'RING_MISMATCH' });
  await expect(group.states()).resolves.toEqual(['empty']);
});

test('a server keeps the newest broadcasts, and waits for slow workers before it removes an older one', async () => {
  const KEPT = 256;
  const worker = await start(2, 1);
  const [chief, slow, late] = [0, 1, 1].map((rank) => openWorker(worker(rank))) as ParameterServerWorker[];
  const [sent, received] = [tf.variable(tf.scalar(0)), tf.variable(tf.scalar(0))];
  let count = 0;
  const sending = (async () => {
    for (; count < KEPT + 20; count++) {
      sent.assign(tf.scalar(count));
      await chief?.broadcast(tf, [sent]);
    }
  })();
  await expect.poll(() => count).toBe(KEPT);
  for (let number = 0; number < KEPT + 20; number++) {
    await slow?.broadcast(tf, [received]);
    expect(received.dataSync()[0]).toBe(number);
  }
  await sending;
  await expect(late?.broadcast(tf, [received])).rejects.toMatchObject({ code: 'RING_MISMATCH', message: /broadcast 0, .* no longer hold/ });
});

describe('custom loops', () => {
  const loss = (variable: tf.Variable, target: number) => () => tf.sum(tf.square(tf.sub(variable, target))) as tf.Scalar;

  test('custom loops exchange gradients and weights in each step, and start with the values of rank 0', async () => {
    const worker = await start(2, 2, { staleness: 0 });
    const variables = [tf.variable(tf.tensor1d([1, 2, 3])), tf.variable(tf.tensor1d([7, 8, 9]))];
    const workers = [0, 1].map((rank) => openWorker(worker(rank)));
    await Promise.all(workers.map((each, rank) => each.broadcast(tf, [variables[rank] as tf.Variable])));
    expect([...(variables[1] as tf.Variable).dataSync()]).toEqual([1, 2, 3]);
    const optimizers = [tf.train.sgd(0.1), tf.train.sgd(0.1)];
    const losses = await Promise.all(
      workers.map(async (each, rank) => {
        const variable = variables[rank] as tf.Variable;
        const all: number[] = [];
        for (let step = 0; step < 12; step++) {
          all.push(await each.step(tf, loss(variable, 5), optimizers[rank] as tf.Optimizer, () => [variable]));
        }
        return all;
      }),
    );
    expect(losses[1]).toEqual(losses[0]);
    expect(losses[0]?.[0]).toBe(29);
    expect(losses[0]?.[11]).toBeLessThan(1e-2);
    expect([...(variables[1] as tf.Variable).dataSync()]).toEqual([...(variables[0] as tf.Variable).dataSync()]);
  });

  test.each(WIRE_SECURITY)('custom loops compute exact weights of several megabytes (%s)', async (security) => {
    const length = 700_000;
    const worker = await start(2, 2, { staleness: 0, security });
    const slopes = [0, 1].map((rank) => Float32Array.from({ length }, (_, index) => ((index * (7 + rank)) % 64) - 20));
    const trained = await Promise.all(
      slopes.map(async (slope, rank) => {
        const each = openWorker(worker(rank));
        const [variable, constants] = [tf.variable(tf.zeros([length])), tf.tensor1d(slope)];
        const sum = () => tf.sum(tf.mul(variable, constants)) as tf.Scalar;
        const optimizer = tf.train.sgd(0.25);
        for (let step = 0; step < 3; step++) {
          await each.step(tf, sum, optimizer, () => [variable]);
        }
        return variable.dataSync();
      }),
    );
    // All sums are exact in float32, so their order does not matter.
    const exact = slopes[0]?.map((slope, index) => 0 - 0.25 * 3 * (slope + (slopes[1]?.[index] as number)));
    for (const weights of trained) {
      expect(Buffer.from(weights.buffer).equals(Buffer.from(exact?.buffer as ArrayBuffer))).toBe(true);
    }
  });

  test('custom loops use the learning rate of the current chief', async () => {
    const worker = await start(1, 1);
    const variable = tf.variable(tf.scalar(1));
    const step = async (each: ParameterServerWorker, optimizer: tf.Optimizer) => {
      await each.step(tf, loss(variable, 4), optimizer, () => [variable]);
      return variable.dataSync()[0];
    };
    const first = openWorker(worker(0));
    const changed = tf.train.sgd(0.1);
    const after = await step(first, changed);
    changed.setLearningRate(0);
    expect(await step(first, changed)).toBe(after);
    expect(await step(openWorker(worker(0)), tf.train.sgd(0.1))).toBeGreaterThan(after as number);
  });

  test('custom loops update only the variables of the optimizer that takes the step, and leak no tensors', async () => {
    const worker = await start(1, 2);
    const each = openWorker(worker(0));
    const [one, other] = [tf.variable(tf.scalar(1)), tf.variable(tf.tensor2d([[2, 3]]))];
    const [adam, momentum] = [tf.train.adam(0.1), tf.train.momentum(0.1, 0.5)];
    const twice = async () => {
      await each.step(tf, loss(one, 4), adam, () => [one]);
      await each.step(tf, loss(other, -4), momentum, () => [other]);
    };
    await twice();
    const before = tf.memory().numTensors;
    for (let round = 0; round < 20; round++) {
      await twice();
    }
    expect(tf.memory().numTensors).toBe(before);
    expect(one.dataSync()[0]).toBeGreaterThan(2);
    expect(other.dataSync()[0]).toBeLessThan(0);
    expect([adam.iterations, momentum.iterations]).toEqual([21, 21]);
  });
});

describe.each(['authenticated', 'encrypted'] as const)('a bit that changes on the network (%s)', (security) => {
  const tensors = [{ name: 'big', dtype: 'float32' as const, shape: [100_000], bytes: new Uint8Array(randomBytes(400_000)) }];

  /** Starts a server behind a proxy that flips the last bit of the first chunk after `armed` is set. */
  const startBehindProxy = async (fromServer: boolean) => {
    const proxy = { armed: false };
    const worker = await start(1, 1, {
      security,
      through: (target) =>
        spy(target, (chunk, fromDialer) => {
          if (proxy.armed && fromDialer !== fromServer) {
            proxy.armed = false;
            chunk[chunk.length - 1] = (chunk.at(-1) as number) ^ 1;
          }
        }),
    });
    return { worker, proxy };
  };

  test('a changed bit in an answer fails the request at once with WIRE_INVALID', async () => {
    const { worker, proxy } = await startBehindProxy(true);
    const group = await open({ ...worker(0), timeouts: { graceMs: 60_000 } });
    await group.put(0, 'current', tensors);
    expect(await group.get(0, 'current')).toEqual(
      tensors.map((tensor) => expect.objectContaining({ name: tensor.name, shape: tensor.shape })),
    );
    proxy.armed = true;
    await expect(group.get(0, 'current')).rejects.toMatchObject({
      code: 'WIRE_INVALID',
      message: expect.stringMatching(/^parameter server 0 sent data that was modified/),
    });
  });

  test('a changed bit in a request fails the request at once with WIRE_INVALID; the server names the rank and does not use the data', async () => {
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const { worker, proxy } = await startBehindProxy(false);
    const group = await open({ ...worker(0), timeouts: { graceMs: 60_000 } });
    await group.put(0, 'last', [{ name: 'small', dtype: 'float32', shape: [1], bytes: new Uint8Array(4) }]);
    proxy.armed = true;
    await expect(group.put(0, 'current', tensors)).rejects.toMatchObject({
      code: 'WIRE_INVALID',
      message: expect.stringMatching(/^parameter server 0 received data that was modified/),
    });
    const printed = () => stderr.mock.calls.map(([text]) => String(text)).join('');
    await expect.poll(printed).toMatch(/WIRE_INVALID: rank 0 sent data that was modified/);
    const again = await open(worker(0));
    expect(await again.get(0, 'last')).toHaveLength(1);
    const missing = again.get(0, 'current').then(
      () => 'stored',
      () => 'not stored',
    );
    again.close(false);
    expect(await missing).toBe('not stored');
  });
});
