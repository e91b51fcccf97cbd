import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { WIRE_SECURITY, type WireSecurity } from '../conf/job.ts';
import { Secret } from '../platform/secret.ts';
import { Ring } from '../training/ring/ring.ts';
import { atLeast, atMost, type Figure, showFigures } from './figures.ts';
import { freePort } from './free-port.ts';
import { median } from './median.ts';
import { openMpi } from './peers/openmpi.ts';
import { openTcpLimit } from './peers/tcp-limit.ts';

/**
 * Measures all-reduce between processes on this machine. Compares it with OpenMPI (over TCP, in place) and with a plain TCP transfer of the
 * same bytes. Each call is timed from a barrier until its slowest rank finishes. The benchmark verifies every sum, including runs with one
 * slow rank. The measurements alternate within one run. Each ratio compares adjacent measurements of one round; the results are medians
 * over the rounds. The rows for `authenticated` and `encrypted` show the cost of `wire.security`.
 * `npm run bench -- allreduce [--output json] [--rounds N] [--ranks 2,4] [--mebibytes 1,16,64] [--security none,authenticated,encrypted]`
 */
const MIB = 1024 * 1024;
/** Least ratio of OpenMPI's time to tony-ts's time, by number of ranks and MiB. */
const GOALS: Readonly<Record<number, Readonly<Record<number, number>>>> = {
  2: { 1: 1, 16: 1.2, 64: 1.5 },
  4: { 1: 0.8, 16: 1, 64: 1.3 },
};
/** Largest ratio of the time with encryption to the time without, between two ranks, by MiB. */
const ENCRYPTED_GOALS: Readonly<Record<number, number>> = { 1: 4, 16: 2, 64: 2.5 };

interface Start {
  readonly rank: number;
  readonly size: number;
  readonly ports: readonly number[];
  /** Random key for this run, in base64. */
  readonly key: string;
  readonly security: WireSecurity;
}

interface Request {
  readonly numbers: number;
  readonly calls: number;
  /** If true, this rank's event loop is blocked repeatedly for a few ms during the call. */
  readonly slow: boolean;
}

interface Answer {
  /** Duration of each call in ms. */
  readonly elapsed: readonly number[];
  readonly correct: boolean;
}

interface Row {
  readonly ranks: number;
  readonly mebibytes: number;
  readonly security: WireSecurity;
  readonly milliseconds: number;
  /** Median ratio of this row's time to the time with the first security mode of the run. */
  readonly cost: number;
  /** OpenMPI's time in ms, or null if OpenMPI is not installed. */
  readonly theirMilliseconds: number | null;
  readonly limitMilliseconds: number;
  /** OpenMPI's time divided by tony-ts's time. If the value is above 1, tony-ts is faster. */
  readonly ratio: number | null;
  /** Plain TCP's time divided by tony-ts's time. A value of 1 means equal speed. */
  readonly limitRatio: number;
}

async function rankMain(): Promise<void> {
  const [start] = (await once(process, 'message')) as [Start];
  const ring = await Ring.join({
    rank: start.rank,
    worldSize: start.size,
    generation: 1,
    key: new Secret(Buffer.from(start.key, 'base64')),
    security: start.security,
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
 * Fills the vector once, sums it repeatedly, and checks the result. Each call multiplies the sum by the number of ranks. That number is a
 * power of two, so the expected value is exact. A barrier precedes each timed call.
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

/** Blocks this thread repeatedly for 5 ms. */
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

  static async start(size: number, security: WireSecurity): Promise<Ranks> {
    const ports = await Promise.all(Array.from({ length: size }, freePort));
    const key = randomBytes(32).toString('base64');
    const children = ports.map((_, rank) => {
      const child = fork(fileURLToPath(import.meta.url), ['rank'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      child.send({ rank, size, ports, key, security } satisfies Start);
      return child;
    });
    await Promise.all(children.map((child) => message(child)));
    return new Ranks(children);
  }

  /** Returns the duration of each call in ms, measured by the slowest rank. */
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
    const onExit = (code: number | null) => reject(new Error(`a rank exited with ${code}`));
    child.once('exit', onExit);
    child.once('message', (value) => {
      child.removeListener('exit', onExit);
      resolve(value);
    });
  });
}

interface Plan {
  readonly rounds: number;
  readonly ranks: readonly number[];
  readonly mebibytes: readonly number[];
  readonly securities: readonly WireSecurity[];
}

async function benchmark(plan: Plan): Promise<{ limitBy: string; rows: Row[] }> {
  const rows: Row[] = [];
  let limitBy = '';
  for (const size of plan.ranks) {
    const modes = await Promise.all(plan.securities.map(async (security) => ({ security, ranks: await Ranks.start(size, security) })));
    const mpi = await openMpi(size, progress);
    const limit = await openTcpLimit(size, 2 * Math.max(...plan.mebibytes) * MIB);
    limitBy = limit.by;
    try {
      for (const mebibytes of plan.mebibytes) {
        const numbers = (mebibytes * MIB) / 4;
        // An all-reduce has two phases. In each phase, each rank sends all of its segments except one.
        const bytes = Math.floor((2 * (size - 1) * mebibytes * MIB) / size);
        const calls = mebibytes === 1 ? 20 : 4;
        for (const { ranks } of modes) {
          await ranks.run(numbers, 3, null);
        }
        await mpi?.run(numbers, 3);
        await limit.exchange(bytes);
        const ours = modes.map((): number[] => []);
        const theirs: number[] = [];
        const limits: number[] = [];
        for (let round = 0; round < plan.rounds; round++) {
          for (const [mode, { ranks }] of modes.entries()) {
            ours[mode]?.push(median(await ranks.run(numbers, calls, null)));
          }
          if (mpi !== null) {
            theirs.push(median(await mpi.run(numbers, calls)));
          }
          const each: number[] = [];
          for (let call = 0; call < calls; call++) {
            each.push(await limit.exchange(bytes));
          }
          limits.push(median(each));
        }
        for (const [mode, { security, ranks }] of modes.entries()) {
          await ranks.run(numbers, 2, size - 1);
          const times = ours[mode] as number[];
          const ratioOf = (others: readonly number[]) => median(others.map((each, round) => each / (times[round] as number)));
          rows.push({
            ranks: size,
            mebibytes,
            security,
            milliseconds: median(times),
            cost: 1 / ratioOf(ours[0] as number[]),
            theirMilliseconds: mpi === null ? null : median(theirs),
            limitMilliseconds: median(limits),
            ratio: mpi === null ? null : ratioOf(theirs),
            limitRatio: ratioOf(limits),
          });
        }
        progress(`${size} ranks, ${mebibytes} MiB: done`);
      }
    } finally {
      await Promise.all([...modes.map(({ ranks }) => ranks.close()), mpi?.close(), limit.close()]);
    }
  }
  return { limitBy, rows };
}

function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** All sums were verified, including those with a slow rank. */
function figuresOf(rows: readonly Row[], limitBy: string): Figure[] {
  return rows.flatMap(({ ranks, mebibytes, security, milliseconds, cost, theirMilliseconds, limitMilliseconds, ratio, limitRatio }) => {
    const name = `${ranks} ranks, ${mebibytes} MiB`;
    const ms = (each: number): string => `${each.toFixed(2)} ms`;
    if (security !== 'none') {
      const goal = atMost(security === 'encrypted' && ranks === 2 ? ENCRYPTED_GOALS[mebibytes] : undefined);
      const what = `${name}: time with ${security} wire / without`;
      return [{ what, value: cost, unit: 'x', goal, detail: ms(milliseconds) }];
    }
    const limit = {
      what: `${name}: time of a TCP transfer / ours`,
      value: limitRatio,
      unit: 'x',
      detail: `${ms(limitMilliseconds)} by ${limitBy === 'c' ? 'a C program' : 'Node'}`,
    };
    if (ratio === null || theirMilliseconds === null) {
      return [{ what: `${name}: without OpenMPI (Debian: openmpi-bin)`, value: milliseconds, unit: 'ms' }, limit];
    }
    const detail = `${ms(theirMilliseconds)} / ${ms(milliseconds)}`;
    return [{ what: `${name}: OpenMPI's time / ours`, value: ratio, unit: 'x', goal: atLeast(GOALS[ranks]?.[mebibytes]), detail }, limit];
  });
}

if (process.argv[2] === 'rank') {
  await rankMain();
} else {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      ranks: { type: 'string', default: '2,4' },
      mebibytes: { type: 'string', default: '1,16,64' },
      security: { type: 'string', default: WIRE_SECURITY.join(',') },
      output: { type: 'string', default: 'text' },
    },
  });
  const numbersOf = (list: string) => list.split(',').map(Number);
  const plan = {
    rounds: Math.max(1, Number(values.rounds)),
    ranks: numbersOf(values.ranks),
    mebibytes: numbersOf(values.mebibytes),
    securities: WIRE_SECURITY.filter((security) => values.security.split(',').includes(security)),
  };
  const { limitBy, rows } = await benchmark(plan);
  showFigures('allreduce', figuresOf(rows, limitBy), values.output);
}
