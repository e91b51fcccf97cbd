import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Secret } from '../conf/secret.ts';
import { Ring } from '../training/ring.ts';
import { freePort } from '../training/testing/free-port.ts';
import { median } from './median.ts';
import { openTcpLimit } from './peers/tcp-limit.ts';

/**
 * All-reduce between processes on this machine, beside what plain TCP can do with the same bytes, in turns within one run.
 * Each call is timed from a barrier on, by the slowest rank; every sum is checked, also with a rank that reads slowly.
 *
 * npm run bench -- allreduce [--output json] [--rounds N]
 */
const RANKS = [2, 4];
const MEBIBYTES = [1, 16, 64];
const MIB = 1024 * 1024;
const TARGET = 0.7;

interface Start {
  readonly rank: number;
  readonly size: number;
  readonly ports: readonly number[];
  /** base64; a key for this run alone. */
  readonly key: string;
}

interface Request {
  readonly numbers: number;
  readonly calls: number;
  /** This rank stops its event loop for some ms at a time while the call runs. */
  readonly slow: boolean;
}

interface Answer {
  /** ms of each call. */
  readonly elapsed: readonly number[];
  readonly correct: boolean;
}

interface Row {
  readonly ranks: number;
  readonly mebibytes: number;
  readonly milliseconds: number;
  readonly limitMilliseconds: number;
  /** limit / ours: 1 is as fast as plain TCP. */
  readonly ratio: number;
}

async function rankMain(): Promise<void> {
  const [start] = (await once(process, 'message')) as [Start];
  const ring = await Ring.join({
    rank: start.rank,
    worldSize: start.size,
    generation: 1,
    key: new Secret(Buffer.from(start.key, 'base64')),
    listener: { fd: null, host: '127.0.0.1', port: start.ports[start.rank] as number },
    addresses: start.ports.map((port) => ({ host: '127.0.0.1', port })),
    onLost: (rank, cause) => {
      console.error(`rank ${rank} ${cause}`);
      process.exit(1);
    },
  });
  const vectors = new Map<number, Float32Array>();
  process.on('disconnect', () => process.exit(0));
  process.on('message', (request: Request) => {
    answer(ring, vectors, request).then(
      (result) => process.send?.(result),
      (error) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
  process.send?.('ready');
}

/**
 * Fills the vector once, sums it again and again, and checks the end: each call multiplies the sum by the number of ranks, a power of two,
 * so every bit of the expected value is known. Nothing but a barrier lies between two timed calls.
 */
async function answer(ring: Ring, vectors: Map<number, Float32Array>, request: Request): Promise<Answer> {
  const vector = vectors.get(request.numbers) ?? ring.vector(request.numbers);
  vectors.set(request.numbers, vector);
  for (let index = 0; index < vector.length; index++) {
    vector[index] = (index % 1000) + ring.rank * 1000;
  }
  const elapsed: number[] = [];
  for (let call = 0; call < request.calls; call++) {
    await ring.barrier();
    const stalls = request.slow ? stall() : null;
    const before = performance.now();
    await ring.allReduce(vector);
    elapsed.push(performance.now() - before);
    stalls?.stop();
  }
  const { worldSize } = ring;
  const factor = worldSize ** (request.calls - 1);
  const ranks = (worldSize * (worldSize - 1) * 1000) / 2;
  const correct = vector.every((value, index) => value === ((index % 1000) * worldSize + ranks) * factor);
  return { elapsed, correct };
}

/** Stops this thread for 5 ms again and again. */
function stall(): { stop(): void } {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const timer = setInterval(() => Atomics.wait(cell, 0, 0, 5), 1);
  return { stop: () => clearInterval(timer) };
}

class Ranks {
  readonly #children: ChildProcess[];

  private constructor(children: ChildProcess[]) {
    this.#children = children;
  }

  static async start(size: number): Promise<Ranks> {
    const ports = await Promise.all(Array.from({ length: size }, freePort));
    const key = randomBytes(32).toString('base64');
    const children = ports.map((_, rank) => {
      const child = fork(fileURLToPath(import.meta.url), ['rank'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      child.send({ rank, size, ports, key } satisfies Start);
      return child;
    });
    await Promise.all(children.map((child) => message(child)));
    return new Ranks(children);
  }

  /** ms of each call by its slowest rank. */
  async run(numbers: number, calls: number, slowRank: number | null): Promise<number[]> {
    const answers = await Promise.all(
      this.#children.map((child, rank) => {
        child.send({ numbers, calls, slow: rank === slowRank } satisfies Request);
        return message(child) as Promise<Answer>;
      }),
    );
    if (answers.some(({ correct }) => !correct)) {
      throw new Error(`a sum of ${numbers} numbers over ${this.#children.length} ranks is wrong`);
    }
    return Array.from({ length: calls }, (_, call) => Math.max(...answers.map(({ elapsed }) => elapsed[call] as number)));
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode === null) {
          child.disconnect();
          await once(child, 'exit');
        }
      }),
    );
  }
}

async function message(child: ChildProcess): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const onExit = (code: number | null) => reject(new Error(`a rank has ended with ${code}`));
    child.once('exit', onExit);
    child.once('message', (value) => {
      child.removeListener('exit', onExit);
      resolve(value);
    });
  });
}

async function benchmark(rounds: number): Promise<{ limitBy: string; rows: Row[] }> {
  const rows: Row[] = [];
  let limitBy = '';
  for (const size of RANKS) {
    const ranks = await Ranks.start(size);
    const limit = await openTcpLimit(size, 2 * 64 * MIB);
    limitBy = limit.by;
    try {
      for (const mebibytes of MEBIBYTES) {
        const numbers = (mebibytes * MIB) / 4;
        // An all-reduce sends all segments but one, twice.
        const bytes = Math.floor((2 * (size - 1) * mebibytes * MIB) / size);
        const calls = mebibytes === 1 ? 20 : 4;
        await ranks.run(numbers, 3, null);
        await limit.exchange(bytes);
        const ours: number[] = [];
        const limits: number[] = [];
        for (let round = 0; round < rounds; round++) {
          ours.push(median(await ranks.run(numbers, calls, null)));
          const each: number[] = [];
          for (let call = 0; call < calls; call++) {
            each.push(await limit.exchange(bytes));
          }
          limits.push(median(each));
        }
        await ranks.run(numbers, 2, size - 1);
        const [milliseconds, limitMilliseconds] = [median(ours), median(limits)];
        rows.push({ ranks: size, mebibytes, milliseconds, limitMilliseconds, ratio: limitMilliseconds / milliseconds });
      }
    } finally {
      await Promise.all([ranks.close(), limit.close()]);
    }
  }
  return { limitBy, rows };
}

function print(rows: readonly Row[], limitBy: string): void {
  console.log(
    `all-reduce of float32 (sum), ms by the slowest rank, medians; limit: plain TCP, ${limitBy === 'c' ? 'a C program' : 'Node'}`,
  );
  console.log('ranks   MiB       ours      limit   limit/ours');
  for (const row of rows) {
    const aimed = row.ranks === 2 && row.mebibytes >= 16;
    const verdict = !aimed ? '' : row.ratio >= TARGET ? `  ok (>= ${TARGET})` : `  below ${TARGET}`;
    console.log(
      [
        String(row.ranks).padStart(5),
        String(row.mebibytes).padStart(5),
        row.milliseconds.toFixed(2).padStart(10),
        row.limitMilliseconds.toFixed(2).padStart(10),
        row.ratio.toFixed(2).padStart(12),
      ].join(' ') + verdict,
    );
  }
  console.log('every sum was checked, also with a rank that reads slowly');
}

if (process.argv[2] === 'rank') {
  await rankMain();
} else {
  const option = (name: string) => {
    const at = process.argv.indexOf(name);
    return at === -1 ? undefined : process.argv[at + 1];
  };
  const { limitBy, rows } = await benchmark(Math.max(1, Number(option('--rounds') ?? 5)));
  if (option('--output') === 'json') {
    for (const row of rows) {
      console.log(JSON.stringify({ type: 'allreduce', limitBy, ...row }));
    }
  } else {
    print(rows, limitBy);
  }
}
