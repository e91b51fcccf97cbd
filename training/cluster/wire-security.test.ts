/** Trains in separate processes in each `wire.security` mode, with and without a proxy that alters the data. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { type Strategy, WIRE_SECURITY, type WireSecurity } from '../../conf/job.ts';
import { doneOf, type GangWishes, type ProgramEvent, stepsOf, useGangs } from '../testing/gang.ts';

const gangs = useGangs();
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) {
    close();
  }
});

/** Opens a proxy to `target`. After `intact` bytes, it flips one bit in the last byte of a chunk that `target` sends. @returns its port. */
async function flippingProxy(target: number, intact: number): Promise<number> {
  let left = intact;
  const server = createServer((inner) => {
    const outer = connect(target, '127.0.0.1');
    inner.on('data', (chunk) => outer.write(chunk));
    outer.on('data', (chunk: Buffer) => {
      if (left > 0 && left <= chunk.length) {
        chunk[chunk.length - 1] = (chunk.at(-1) as number) ^ 1;
      }
      left -= chunk.length;
      inner.write(chunk);
    });
    for (const [one, other] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  return (server.address() as { port: number }).port;
}

interface Kind {
  readonly workers: number;
  readonly servers: number;
  readonly strategy: Strategy;
  /** The mode in which the proxy changes a bit. The connection tests cover the other mode. */
  readonly changedIn: WireSecurity;
  /** The member behind the proxy, and the worker that reads from it. */
  readonly behind: { readonly role: string; readonly index: number };
  readonly reader: number;
  readonly message: RegExp;
}

const KINDS: Readonly<Record<string, Kind>> = {
  'all-reduce': {
    ...{ workers: 3, servers: 0, strategy: { type: 'all-reduce' } },
    changedIn: 'authenticated',
    ...{ behind: { role: 'worker', index: 0 }, reader: 1, message: /TonyError: worker:0 sent data that was modified/ },
  },
  // Only one worker, because with several workers the weights depend on the order in which gradients arrive.
  'parameter-server': {
    ...{ workers: 1, servers: 2, strategy: { type: 'parameter-server', staleness: 0 } },
    changedIn: 'encrypted',
    ...{ behind: { role: 'ps', index: 1 }, reader: 0, message: /TonyError: parameter server 1 sent data that was modified/ },
  },
};

describe.each(Object.entries(KINDS))('%s', (type, { workers, servers, strategy, changedIn, behind, reader, message }) => {
  let expected: ProgramEvent | undefined;

  const train = async (name: string, security: WireSecurity, wishes: Partial<GangWishes> = {}) => {
    const gang = await gangs.start({
      ...{ name: `${type}-${name}`, workers, servers, strategy, wire: { dtype: 'float32', security } },
      ...wishes,
    });
    return { gang, exits: await Promise.all(gang.workers.map(({ exited }) => exited)) };
  };

  test('the trained weights are equal in each mode', async () => {
    for (const security of WIRE_SECURITY) {
      const { gang, exits } = await train(security, security);
      expect(exits, gang.workers.map((worker) => worker.stderr()).join('\n')).toEqual(gang.workers.map(() => 0));
      const [first] = gang.workers.map(doneOf);
      expected ??= first;
      expect(expected).toMatchObject({ event: 'done', weights: expect.stringMatching(/^[0-9a-f]{64}$/) });
      expect(gang.workers.map(doneOf)).toEqual(gang.workers.map(() => expected));
    }
  });

  test('a bit that changes on the network ends the program, and the next generation resumes from the checkpoint', async () => {
    const through: GangWishes['through'] = async (port, { role, index }) =>
      role === behind.role && index === behind.index ? await flippingProxy(port, 9000) : port;
    const { gang, exits } = await train('changed', changedIn, { through });
    expect(exits).toEqual(gang.workers.map(() => 1));
    const failed = gang.workers[reader];
    expect(failed?.stderr()).toMatch(message);
    expect(failed?.stderr()).toContain('WIRE_INVALID');
    const again = await train('changed', changedIn, { generation: 2 });
    // Checkpoints are taken every 5 steps. The first program may have ended before it stored one.
    const [resumed = 0] = stepsOf(again.gang.workers[0]);
    expect((resumed - 1) % 5).toBe(0);
    expect(again.gang.workers.map(doneOf)).toEqual(gang.workers.map(() => expected));
  });
});
