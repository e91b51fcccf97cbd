import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WIRE_SECURITY, type WireSecurity } from '../../conf/job.ts';
import { CHALLENGE_BYTES, encodeChallenge, encodeHello, HELLO_BYTES } from '../../contract/connections/handshake.ts';
import { openEarlyListener } from '../../contract/connections/listener.ts';
import type { TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import { Ring } from './ring.ts';
import type { RingTimeouts } from './ring-options.ts';

const KEY = new Secret(randomBytes(32));

interface Lost {
  rank: number;
  peer: number;
  cause: string;
}

interface Setup {
  size: number;
  keys?: Secret[];
  generations?: number[];
  security?: WireSecurity;
  timeouts?: Partial<RingTimeouts>;
  lost?: Lost[];
  refused?: string[];
  /** Opens a proxy in front of the rank that listens on `port`. Resolves with the proxy's port. */
  through?: (port: number) => Promise<number>;
}

async function joinAll(setup: Setup): Promise<Ring[]> {
  const listeners = await Promise.all(Array.from({ length: setup.size }, () => openEarlyListener('127.0.0.1')));
  onTestFinished(() => {
    for (const { server } of listeners) {
      server.close();
    }
  });
  const seen = await Promise.all(listeners.map(({ port }) => setup.through?.(port) ?? port));
  const joins = listeners.map(({ server }, rank) =>
    Ring.join({
      rank,
      worldSize: setup.size,
      generation: setup.generations?.[rank] ?? 1,
      key: setup.keys?.[rank] ?? KEY,
      security: setup.security ?? 'none',
      listener: server,
      addresses: seen.map((seenPort) => ({ host: '127.0.0.1', port: seenPort })),
      onLost: (peer, cause) => setup.lost?.push({ rank, peer, cause }),
      onRefused: (reason) => setup.refused?.push(reason),
      timeouts: { graceMs: 50, ...setup.timeouts },
    }).then((ring) => {
      onTestFinished(() => void ring.close());
      return ring;
    }),
  );
  const results = await Promise.allSettled(joins);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) {
    throw failed.reason;
  }
  return await Promise.all(joins);
}

/** Opens a proxy to `target` and resolves with the proxy's port. `onBytes` must forward each chunk. */
async function proxy(target: number, onBytes: (chunk: Buffer, to: Socket, ends: [Socket, Socket]) => void): Promise<number> {
  const server = createServer((inner) => {
    const outer = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      from.on('data', (chunk) => onBytes(chunk, to, [inner, outer]));
      from.on('end', () => to.end());
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as { port: number }).port;
}

function fill(numbers: Float32Array, rank: number): void {
  for (let index = 0; index < numbers.length; index++) {
    numbers[index] = ((index * 31 + rank * 17) % 2000) - 1000;
  }
}

function expectedSum(length: number, size: number): Float32Array {
  const sum = new Float32Array(length);
  for (let rank = 0; rank < size; rank++) {
    for (let index = 0; index < length; index++) {
      sum[index] = (sum[index] as number) + ((index * 31 + rank * 17) % 2000) - 1000;
    }
  }
  return sum;
}

async function checkSums(rings: Ring[], length: number, own: boolean): Promise<void> {
  const vectors = rings.map((ring) => {
    const vector = own ? ring.vector(length) : new Float32Array(length);
    fill(vector, ring.rank);
    return vector;
  });
  await Promise.all(rings.map((ring, rank) => ring.allReduce(vectors[rank] as Float32Array)));
  const expected = Buffer.from(expectedSum(length, rings.length).buffer);
  for (const vector of vectors) {
    expect(Buffer.compare(Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength), expected)).toBe(0);
  }
}

describe.each(WIRE_SECURITY)('collective calls, wire.security: %s', (security) => {
  const join = (setup: Setup) => joinAll({ ...setup, security });

  test.each([1, 2, 3, 4, 5])('sums over %i ranks are exact for every length', async (size) => {
    const rings = await join({ size });
    for (const length of [0, 1, size - 1, size, size + 1, 1000, 65_536, 300_001]) {
      await checkSums(rings, length, length % 2 === 0);
    }
  });

  test('sums of many megabytes are exact in consecutive calls without a pause', async () => {
    const rings = await join({ size: 2 });
    for (let round = 0; round < 3; round++) {
      await checkSums(rings, 1_500_000 + round, true);
    }
  });

  test('concurrent calls run in the order in which they were made', async () => {
    const rings = await join({ size: 3 });
    const all = rings.flatMap((ring) =>
      Array.from({ length: 20 }, async (_, call) => {
        const numbers = new Float32Array(call * 100).fill(call + ring.rank);
        await ring.allReduce(numbers, 'mean');
        return numbers.every((value) => Math.abs(value - (call + 1)) < 1e-4);
      }),
    );
    expect((await Promise.all(all)).every(Boolean)).toBe(true);
  });

  test('a broadcast copies the numbers of rank 0', async () => {
    const rings = await join({ size: 4 });
    const vectors = rings.map((ring) => new Float32Array(100_000).fill(ring.rank + 7));
    await Promise.all(rings.map((ring, rank) => ring.broadcast(vectors[rank] as Float32Array)));
    expect(vectors.every((vector) => vector.every((value) => value === 7))).toBe(true);
    await checkSums(rings, 500, false);
  });

  test('a rank may be several calls ahead of the others', async () => {
    // Rank 0 does not wait during a broadcast, so it completes many calls before the other ranks make their first call.
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 150_000 })), { minLength: 1, maxLength: 40 }),
        async (lengths) => {
          const rings = await join({ size: 3 });
          const run = async (ring: Ring) => {
            for (const [call, length] of lengths.entries()) {
              const numbers = new Float32Array(length).fill(ring.rank === 0 ? call : -1);
              await ring.broadcast(numbers);
              expect(numbers.every((value) => value === call)).toBe(true);
              if (ring.rank > 0 && call % 7 === 0) {
                await new Promise((resolve) => setImmediate(resolve));
              }
            }
            await ring.barrier();
          };
          const ahead = run(rings[0] as Ring);
          await new Promise((resolve) => setImmediate(resolve));
          await Promise.all([ahead, run(rings[1] as Ring), run(rings[2] as Ring)]);
          for (const ring of rings) {
            ring.close();
          }
        },
      ),
      { numRuns: 8 },
    );
  });

  test('a barrier resolves only after the last rank has reached it', async () => {
    const rings = await join({ size: 3 });
    const passed: number[] = [];
    const waits = rings.slice(0, 2).map((ring) => ring.barrier().then(() => passed.push(ring.rank)));
    await rings[0]?.allReduce.length;
    await new Promise((resolve) => setImmediate(resolve));
    expect(passed).toEqual([]);
    await Promise.all([...waits, rings[2]?.barrier()]);
    expect(passed.sort()).toEqual([0, 1]);
  });

  test('sums are correct for any division of the stream into chunks', async () => {
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.integer({ min: 1, max: 5000 })), fc.integer({ min: 0, max: 30_000 }), async (cuts, length) => {
        const through = (port: number) =>
          proxy(port, (chunk, to) => {
            for (let at = 0; at < chunk.length; ) {
              const count = Math.min(cuts.next().value as number, chunk.length - at);
              to.write(chunk.subarray(at, at + count));
              at += count;
            }
          });
        const rings = await join({ size: 3, through });
        await checkSums(rings, length, true);
        await checkSums(rings, length, false);
        for (const ring of rings) {
          ring.close();
        }
      }),
      { numRuns: 8 },
    );
  });

  test('sums are correct with a slow reader: a rank does not change bytes before they are sent', async () => {
    // The pauses keep the writers' queues full.
    let slow = 0;
    const through = (port: number) =>
      proxy(port, (chunk, to, [inner, outer]) => {
        to.write(chunk);
        slow += chunk.length;
        if (slow > 200_000) {
          slow = 0;
          inner.pause();
          outer.pause();
          setTimeout(() => {
            inner.resume();
            outer.resume();
          }, 1);
        }
      });
    const rings = await join({ size: 3, through });
    const vectors = rings.map((ring) => ring.vector(1_000_000));
    for (let round = 0; round < 3; round++) {
      vectors.forEach((vector, rank) => {
        fill(vector, rank);
      });
      await Promise.all(
        rings.map(async (ring, rank) => {
          const vector = vectors[rank] as Float32Array;
          await ring.allReduce(vector);
          const right = Buffer.compare(
            Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
            Buffer.from(expectedSum(1_000_000, 3).buffer),
          );
          expect(right).toBe(0);
          vector.fill(Number.NaN);
        }),
      );
    }
  });
});

describe('unauthenticated or missing peers', () => {
  const failing = async (setup: Setup) =>
    await joinAll({ ...setup, timeouts: { joinMs: 2000, ...setup.timeouts } }).then(
      () => {
        throw new Error('joined');
      },
      (error: TonyError) => error,
    );

  test('a rank with another key is rejected', async () => {
    const error = await failing({ size: 2, keys: [KEY, new Secret(randomBytes(32))] });
    expect(error.code).toBe('RING_JOIN_FAILED');
    expect(error.message).toContain('has a different ring key');
  });

  test('a rank of another generation is rejected', async () => {
    const refused: string[] = [];
    const error = await failing({ size: 2, generations: [3, 2], refused });
    expect(error.code).toBe('RING_JOIN_FAILED');
    expect(refused.join()).toMatch(/belongs to generation 2, but this rank belongs to generation 3/);
  });

  test('the error names a rank that never connects', async () => {
    const { server, port } = await openEarlyListener('127.0.0.1');
    const address = { host: '127.0.0.1', port };
    const join = Ring.join({
      rank: 0,
      worldSize: 3,
      generation: 1,
      key: KEY,
      listener: server,
      addresses: [address, { host: '127.0.0.1', port: 1 }, { host: '127.0.0.1', port: 2 }],
      onLost: () => {},
      timeouts: { joinMs: 2000 },
    });
    await expect(join).rejects.toThrow(/rank 2 and rank 1 did not join within 2 s; .*could not be reached/);
  });

  test('invalid bytes, partial handshakes, excess data and dead connections do not affect the other ranks', async () => {
    const [own, others] = [await openEarlyListener('127.0.0.1'), await openEarlyListener('127.0.0.1')];
    const { port } = own;
    const addresses = [own, others].map((each) => ({ host: '127.0.0.1', port: each.port }));
    const refused: string[] = [];
    const options = { worldSize: 2, generation: 1, key: KEY, addresses, onLost: () => {} };
    const first = Ring.join({
      ...options,
      rank: 0,
      listener: own.server,
      onRefused: (reason) => refused.push(reason),
    });
    for (let stranger = 0; stranger < 40; stranger++) {
      const silent = connect(port, '127.0.0.1');
      silent.on('error', () => {});
      onTestFinished(() => void silent.destroy());
    }
    const dial = () => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      onTestFinished(() => void socket.destroy());
      return socket;
    };
    dial().write(randomBytes(1000));
    dial().write('GET / HTTP/1.1\r\n\r\n'.padEnd(80));
    dial().write(Buffer.alloc(20));
    const reset = dial();
    reset.on('connect', () => reset.resetAndDestroy());
    // Sends the challenge's MAC back as the proof.
    const reflecting = dial();
    reflecting.write(encodeHello({ generation: 1, worldSize: 2, from: 1, to: 0, security: 'none' }, randomBytes(32)));
    reflecting.once('data', (challenge: Buffer) => reflecting.write(challenge.subarray(HELLO_BYTES, CHALLENGE_BYTES)));
    const seenThrough = () =>
      refused.filter((reason) => /more data than a handshake|not a member|has a different ring key/.test(reason)).length;
    await expect.poll(seenThrough).toBeGreaterThanOrEqual(3);
    const second = Ring.join({ ...options, rank: 1, listener: others.server });
    const rings = await Promise.all([first, second]);
    for (const ring of rings) {
      onTestFinished(() => void ring.close());
    }
    await checkSums(rings, 1000, true);
  });

  test('a rank rejects an acceptor with another key or another rank', async () => {
    const believe = async (key: Uint8Array, from: number) => {
      const impostor: Server = createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', (hello: Buffer) => {
          socket.write(encodeChallenge(key, { generation: 1, worldSize: 2, from, to: 0, security: 'none' }, randomBytes(32), hello));
        });
      }).listen(0, '127.0.0.1');
      await once(impostor, 'listening');
      onTestFinished(() => void impostor.close());
      const { server, port } = await openEarlyListener('127.0.0.1');
      const join = Ring.join({
        rank: 0,
        worldSize: 2,
        generation: 1,
        key: KEY,
        listener: server,
        addresses: [{ port }, impostor.address() as { port: number }].map(({ port: each }) => ({
          host: '127.0.0.1',
          port: each,
        })),
        onLost: () => {},
        timeouts: { joinMs: 2000 },
      });
      await expect(join).rejects.toThrow(/has a different ring key|connecting to rank/);
    };
    await Promise.all([believe(randomBytes(32), 1), believe(KEY.reveal(), 0)]);
  });
});

describe.each(WIRE_SECURITY)('losses, wire.security: %s', (security) => {
  const join = (setup: Setup) => joinAll({ ...setup, security });

  test('both neighbours report a connection that breaks at any byte, and calls fail after the grace period', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 3_000_000 }), async (budget) => {
        const lost: Lost[] = [];
        let left = Number.POSITIVE_INFINITY;
        const through = (port: number) =>
          proxy(port, (chunk, to, ends) => {
            left -= chunk.length;
            if (left < 0) {
              for (const end of ends) {
                end.destroy();
              }
            } else {
              to.write(chunk);
            }
          });
        const rings = await join({ size: 2, through, lost });
        left = budget;
        const run = async (ring: Ring) => {
          for (;;) {
            const vector = ring.vector(50_000);
            fill(vector, ring.rank);
            await ring.allReduce(vector);
          }
        };
        const errors = await Promise.all(rings.map((ring) => run(ring).catch((error: TonyError) => error)));
        expect(errors.map((error) => error.code)).toEqual(['PEER_LOST', 'PEER_LOST']);
        expect(lost.map(({ rank, peer }) => `${rank}-${peer}`).sort()).toEqual(['0-1', '1-0']);
      }),
      { numRuns: 10 },
    );
  });

  test('both ranks report a connection that is lost between calls', async () => {
    const lost: Lost[] = [];
    const sockets: Socket[] = [];
    const through = (port: number) =>
      proxy(port, (chunk, to, ends) => {
        sockets.push(...ends);
        to.write(chunk);
      });
    const rings = await join({ size: 2, through, lost, timeouts: { graceMs: 100 } });
    await Promise.all(rings.map((ring) => ring.barrier()));
    for (const socket of sockets) {
      socket.destroy();
    }
    await expect.poll(() => lost.length).toBe(2);
    await expect(rings[0]?.barrier()).rejects.toMatchObject({ code: 'PEER_LOST' });
    await expect(rings[0]?.barrier()).rejects.toMatchObject({ code: 'PEER_LOST' });
  });

  test('the error names a peer that sends nothing during a call', async () => {
    const lost: Lost[] = [];
    const rings = await join({ size: 3, lost, timeouts: { silenceMs: 200, graceMs: 20 } });
    await Promise.all(rings.map((ring) => ring.barrier()));
    const calls = [rings[0], rings[1]].map((ring) => ring?.barrier().catch((error: TonyError) => error));
    const errors = (await Promise.all(calls)) as TonyError[];
    expect(errors.map((error) => error.code)).toEqual(['PEER_LOST', 'PEER_LOST']);
    expect(lost.find(({ rank }) => rank === 0)).toMatchObject({ peer: 2, cause: 'was silent for 0.2 s' });
  });

  test('ranks that make different calls get an error that names both calls', async () => {
    const rings = await join({ size: 2 });
    const calls = await Promise.all([
      rings[0]?.allReduce(new Float32Array(5)).catch((error: TonyError) => error),
      rings[1]?.allReduce(new Float32Array(6)).catch((error: TonyError) => error),
    ]);
    for (const error of calls as TonyError[]) {
      expect(error.code).toBe('RING_MISMATCH');
      expect(error.message).toMatch(
        /^the ranks make different calls: rank [01]: all-reduce \(sum\) of [56] numbers \(call 0\); rank [01]: all-reduce/,
      );
    }
  });

  test('a rank that has closed its ring does not count as lost, but later calls of the other ranks are rejected', async () => {
    const lost: Lost[] = [];
    const rings = await join({ size: 2, lost });
    await checkSums(rings, 100_000, true);
    rings[1]?.close();
    await expect(rings[0]?.barrier()).rejects.toMatchObject({ code: 'RING_MISMATCH' });
    expect(lost).toEqual([]);
  });
});

// Positions in the stream of the first connection, after the handshakes. With `authenticated`: a record with the vector's header (20 + 16
// bytes), and a record with the first segment (20 + 100,000 bytes). With `encrypted`: the same data in TLS records of at most 16 KiB, which
// are 22 bytes longer than the data. Session tickets may precede it.
const PLACES: readonly (readonly [security: WireSecurity, what: string, where: number])[] = [
  ['authenticated', 'the header of a vector', 20 + 3],
  ['authenticated', 'the tag of a record', 36 + 7],
  ['authenticated', 'the first byte of a tensor', 36 + 20],
  ['authenticated', 'the middle of a tensor', 36 + 20 + 50_000],
  ['authenticated', 'the last byte of a tensor', 36 + 20 + 99_999],
  ['encrypted', 'the type of a record', 0],
  ['encrypted', 'the version of a record', 1],
  ['encrypted', 'the header of a vector', 5 + 3],
  ['encrypted', 'the first byte of a tensor', 38 + 5],
  ['encrypted', 'the middle of a tensor', 38 + 50_000],
  ['encrypted', 'the last byte of a tensor', 38 + 6 * 16_406 + 5 + 1_695],
];

/** Opens a proxy that changes a bit of the acceptor's data, at the given position after `arm` is called. */
function changingProxy(where: number) {
  let left = Number.POSITIVE_INFINITY;
  let proxies = 0;
  const through = (port: number) => {
    proxies++;
    const isFirst = proxies === 1;
    return proxy(port, (chunk, to, [inner]) => {
      if (isFirst && to === inner) {
        if (left >= 0 && left < chunk.length) {
          chunk[left] = (chunk[left] as number) ^ 0x10;
        }
        left -= chunk.length;
      }
      to.write(chunk);
    });
  };
  return {
    through,
    arm: () => {
      left = where;
    },
  };
}

describe('a bit that changes on the network', () => {
  test.each(PLACES)('(%s) in %s fails the call at both ends at once with WIRE_INVALID', async (security, _, where) => {
    const lost: Lost[] = [];
    const { through, arm } = changingProxy(where);
    const rings = await joinAll({ size: 2, through, lost, security, timeouts: { graceMs: 60_000 } });
    arm();
    const errors = await Promise.all(
      rings.map(async (ring) => {
        const vector = ring.vector(50_000);
        fill(vector, ring.rank);
        return await ring.allReduce(vector).catch((error: TonyError) => error);
      }),
    );
    // Rank 1 reads from rank 0, whose data changes.
    expect(errors[1]).toMatchObject({ code: 'WIRE_INVALID', message: expect.stringMatching(/^rank 0 sent data that was modified/) });
    expect(errors[0]).toMatchObject({ code: 'WIRE_INVALID', message: expect.stringMatching(/^rank 1 received data that was modified/) });
    await expect(rings[1]?.barrier()).rejects.toMatchObject({ code: 'WIRE_INVALID' });
    expect(lost).toEqual([]);
  });

  test.each(['authenticated', 'encrypted'] as const)(
    'is reported even if the peer closes its other connection first (%s)',
    async (security) => {
      const lost: Lost[] = [];
      let left = Number.POSITIVE_INFINITY;
      let proxies = 0;
      const through = (port: number) => {
        proxies++;
        const isFirst = proxies === 1;
        return proxy(port, (chunk, to, [inner, outer]) => {
          if (isFirst && to === inner) {
            if (left >= 0 && left < chunk.length) {
              chunk[left] = (chunk[left] as number) ^ 0x10;
              // Rank 1 does not notice that rank 0 closes this connection.
              outer
                .removeAllListeners('end')
                .removeAllListeners('close')
                .removeAllListeners('error')
                .on('error', () => {});
            }
            left -= chunk.length;
          }
          to.write(chunk);
        });
      };
      const rings = await joinAll({ size: 2, through, lost, security, timeouts: { graceMs: 60_000 } });
      left = 36 + 50;
      const errors = await Promise.all(rings.map((ring) => ring.allReduce(new Float32Array(50_000)).catch((error: TonyError) => error)));
      expect(errors.map((error) => error?.code)).toEqual(['WIRE_INVALID', 'WIRE_INVALID']);
      expect(lost).toEqual([]);
    },
  );
});
