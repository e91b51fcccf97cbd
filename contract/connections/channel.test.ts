import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WIRE_SECURITY, type WireSecurity } from '../../conf/job.ts';
import { spy } from '../testing/spy.ts';
import type { Channel } from './channel.ts';
import { acceptNeighbour, dialNeighbour } from './connect.ts';
import type { Reader } from './reader.ts';

const KEY = randomBytes(32);
class Collector implements Reader {
  readonly chunks: Buffer[] = [];
  total = 0;
  readonly #place = Buffer.alloc(100_000);
  #awaited: { readonly total: number; readonly resolve: () => void } | null = null;

  destination(): Uint8Array {
    return this.#place;
  }

  received(count: number): boolean {
    this.chunks.push(Buffer.from(this.#place.subarray(0, count)));
    this.total += count;
    if (this.#awaited !== null && this.total >= this.#awaited.total) {
      this.#awaited.resolve();
    }
    return true;
  }

  async until(total: number): Promise<Buffer> {
    if (this.total < total) {
      await new Promise<void>((resolve) => {
        this.#awaited = { total, resolve };
      });
    }
    return Buffer.concat(this.chunks);
  }
}

interface Connected {
  readonly dialer: Channel;
  readonly acceptor: Channel;
  readonly atDialer: Collector;
  readonly atAcceptor: Collector;
  readonly refused: readonly string[];
}

interface Modes {
  readonly dialer: WireSecurity;
  readonly acceptor: WireSecurity;
}

async function listen(onConnection: (socket: Socket) => void = () => {}) {
  const server = createServer({ noDelay: true }, onConnection).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { server, port: (server.address() as { port: number }).port };
}

async function connect(
  { dialer, acceptor }: Modes,
  through: (port: number) => Promise<number> = async (port) => port,
  signal?: AbortSignal,
) {
  const { server, port } = await listen();
  const identity = { generation: 4, worldSize: 2 };
  const refused: string[] = [];
  const onRefused = (reason: string) => refused.push(reason);
  const limit = signal ?? AbortSignal.timeout(20_000);
  const [atDialer, atAcceptor] = [new Collector(), new Collector()];
  const address = { host: '127.0.0.1', port: await through(port) };
  const channels = Promise.all([
    dialNeighbour(address, KEY, { ...identity, from: 1, to: 0, security: dialer }, atDialer, limit, onRefused),
    acceptNeighbour(server, KEY, { ...identity, from: 1, to: 0, security: acceptor }, limit, onRefused),
  ]);
  return { channels, refused, atDialer, atAcceptor };
}

async function connected(security: WireSecurity, through?: (port: number) => Promise<number>): Promise<Connected> {
  const { channels, ...rest } = await connect({ dialer: security, acceptor: security }, through);
  const [dialer, acceptor] = await channels;
  for (const { socket } of [dialer, acceptor]) {
    onTestFinished(() => void socket.destroy());
  }
  acceptor.read(rest.atAcceptor);
  return { dialer, acceptor, ...rest };
}

describe.each(WIRE_SECURITY)('%s', (security) => {
  test('writes of all sizes arrive in order, in both directions at the same time', async () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 30_000 }), fc.integer({ min: 1, max: 1_500_000 }));
    const writes = fc.array(fc.record({ size, corked: fc.boolean() }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(writes, writes, async (toAcceptor, toDialer) => {
        const { dialer, acceptor, atDialer, atAcceptor } = await connected(security);
        const send = async (channel: Channel, parts: typeof toAcceptor, to: Collector) => {
          const sent = parts.map((part) => randomBytes(part.size));
          const written: number[] = [];
          for (const [index, bytes] of sent.entries()) {
            const { corked } = parts[index] as (typeof parts)[number];
            if (corked) {
              channel.cork();
            }
            channel.write(bytes, () => written.push(index));
            if (corked) {
              channel.write(Buffer.of(index));
              channel.uncork();
            }
          }
          const whole = Buffer.concat(sent.flatMap((bytes, index) => (parts[index]?.corked ? [bytes, Buffer.of(index)] : [bytes])));
          expect((await to.until(whole.length)).equals(whole)).toBe(true);
          await expect.poll(() => written).toEqual(sent.map((_, index) => index));
        };
        await Promise.all([send(dialer, toAcceptor, atAcceptor), send(acceptor, toDialer, atDialer)]);
        const ended = once(dialer.socket, 'end');
        acceptor.write(Buffer.alloc(2_000_000, 1));
        acceptor.end(Buffer.from('bye'));
        await ended;
        expect(Buffer.concat(atDialer.chunks).subarray(-3).toString()).toBe('bye');
        dialer.socket.destroy();
      }),
      { numRuns: 12 },
    );
  });

  test('the network carries the plaintext only without encryption', async () => {
    const secret = randomBytes(64);
    const seen: Buffer[] = [];
    const { dialer, acceptor, atDialer, atAcceptor } = await connected(security, (port) => spy(port, (chunk) => seen.push(chunk)));
    dialer.write(secret);
    acceptor.write(secret);
    await Promise.all([atDialer.until(secret.length), atAcceptor.until(secret.length)]);
    const traffic = Buffer.concat(seen);
    expect(traffic.includes(secret)).toBe(security !== 'encrypted');
    expect(traffic.includes(KEY)).toBe(false);
  });
});

describe.each(['authenticated', 'encrypted'] as const)('%s', (security) => {
  test.each([true, false])('a changed bit ends the connection with WIRE_INVALID (sent by the dialer: %s)', async (byDialer) => {
    let armed = false;
    const { dialer, acceptor, atDialer, atAcceptor } = await connected(security, (port) =>
      spy(port, (chunk, fromDialer) => {
        if (armed && fromDialer === byDialer) {
          armed = false;
          chunk[chunk.length >> 1] = (chunk[chunk.length >> 1] as number) ^ 1;
        }
      }),
    );
    const [sender, receiver, at] = byDialer ? [dialer, acceptor, atAcceptor] : [acceptor, dialer, atDialer];
    sender.write(Buffer.from('intact'));
    await at.until(6);
    const losses = [receiver, sender].map((channel) => new Promise((resolve) => channel.watch((...loss) => resolve(loss))));
    armed = true;
    sender.write(randomBytes(5000));
    expect(await Promise.all(losses)).toEqual([
      [expect.stringMatching(/^sent data that was modified/), 'WIRE_INVALID'],
      [expect.stringMatching(/^received data that was modified/), 'WIRE_INVALID'],
    ]);
    expect(at.total).toBe(6);
  });

  test('ciphertext does not accumulate while the network is slow', async () => {
    const { dialer, acceptor } = await connected(security);
    acceptor.socket.pause();
    dialer.write(Buffer.alloc(50_000_000));
    expect(dialer.socket.writableLength).toBeLessThan(3_000_000);
  });
});

test('each connection has its own keys', async () => {
  const traffic: Buffer[] = [];
  for (let connection = 0; connection < 2; connection++) {
    const seen: Buffer[] = [];
    const { dialer, atAcceptor } = await connected('encrypted', (port) => spy(port, (chunk, fromDialer) => fromDialer && seen.push(chunk)));
    dialer.write(Buffer.alloc(1000));
    await atAcceptor.until(1000);
    traffic.push(Buffer.concat(seen).subarray(-1000));
  }
  expect(traffic[0]?.equals(traffic[1] as Buffer)).toBe(false);
});

test.each<[WireSecurity, WireSecurity]>([
  ['none', 'authenticated'],
  ['authenticated', 'encrypted'],
  ['encrypted', 'none'],
])('a dialer with %s is refused by an acceptor with %s, which names both modes', async (dialer, acceptor) => {
  const giveUp = new AbortController();
  const { channels, refused } = await connect({ dialer, acceptor }, undefined, giveUp.signal);
  const failed = expect(channels).rejects.toThrow('enough');
  await expect.poll(() => refused.join('\n')).toContain(`uses wire.security ${dialer}, but this rank uses ${acceptor}`);
  giveUp.abort(new Error('enough'));
  await failed;
});
