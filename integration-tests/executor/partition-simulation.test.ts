import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { equalShards } from '../../application-master/services/equal-shards.ts';
import { PartitionFeed } from '../../application-master/services/partition-feed.ts';
import type { FeedOpening, NeededPiece, RankPieces, RankReport } from '../../contract/partitions/partition-feed.ts';
import { createRandom } from '../../platform/random.ts';
import { RankReader } from '../../task-executor/partitions/rank-reader.ts';
import type { ReadingPosition } from '../../task-executor/partitions/reading-order.ts';
import { ReceivedPieces } from '../../task-executor/partitions/received-pieces.ts';

const NEVER = new AbortController().signal;
/** Number of records in a batch of the program. */
const BATCH = 3;
/** Number of bytes of a record. */
const RECORD_BYTES = 10;

interface Case {
  readonly sizes: readonly number[];
  readonly worldSize: number;
  readonly epochs: number;
  readonly shards: FeedOpening['shards'];
  readonly seed: number | null;
  /** Size of the cache in records. */
  readonly cache: number;
  /** Number of restarts of all programs. */
  readonly restarts: number;
  readonly chance: number;
}

/** A record, as `epoch:partition:row`. */
type Seen = readonly string[];

interface Checkpoint {
  readonly position: ReadingPosition;
  readonly seen: Seen;
}

const START: Checkpoint = { position: { epoch: 0, records: 0 }, seen: [] };

/**
 * A job, its source and its failures, without processes: the ApplicationMaster's feed, one reader for each rank, and a source that delivers
 * pieces in random order, some twice, some not at all. Programs restart from their checkpoints, some of them in new containers, and the
 * ApplicationMaster restarts from its stored state.
 */
class Simulation {
  readonly #case: Case;
  readonly #random: () => number;
  readonly #folder: string;
  #feed: PartitionFeed;
  #containers = 0;
  readonly #received: ReceivedPieces[];
  readonly #readers: RankReader[] = [];
  readonly #stop = new AbortController();

  constructor(each: Case, folder: string) {
    this.#case = each;
    this.#folder = folder;
    this.#random = createRandom(each.chance);
    const { sizes, shards, epochs, seed, cache, worldSize } = each;
    const opening: FeedOpening = {
      source: 'driver',
      format: 'arrow',
      partitions: sizes.length,
      counts: shards === 'equal' ? [...sizes] : null,
      epochs,
      shards,
      remainder: 'pad',
      seed,
      cacheBytes: cache * RECORD_BYTES,
    };
    this.#feed = PartitionFeed.open('train', opening, worldSize);
    this.#received = Array.from({ length: worldSize }, () => this.#newContainer());
  }

  /** Returns what the ranks have read in the end, as far as their last checkpoints know it. */
  async run(): Promise<Seen> {
    const source = this.#send();
    let checkpoints = Array.from({ length: this.#case.worldSize }, () => START);
    try {
      for (let restarts = this.#case.restarts; restarts >= 0; restarts--) {
        const steps = restarts === 0 ? Number.POSITIVE_INFINITY : 1 + Math.floor(this.#random() * 12);
        checkpoints = await Promise.all(checkpoints.map((checkpoint, rank) => this.#program(rank, checkpoint, steps)));
        this.#fail();
      }
    } finally {
      this.#stop.abort();
      for (const reader of this.#readers) {
        reader.close();
      }
      await source;
    }
    return checkpoints.flatMap(({ seen }) => seen);
  }

  /** Reads batches, and returns a checkpoint, which is older than the last batch. */
  async #program(rank: number, { position, seen }: Checkpoint, steps: number): Promise<Checkpoint> {
    this.#readers[rank]?.close();
    const reader = new RankReader(
      {
        feed: 'train',
        rank,
        worldSize: this.#case.worldSize,
        door: { host: 'node', port: this.#containers },
        received: this.#received[rank] as ReceivedPieces,
        readers: () => [],
        report: (report, signal) => this.#report(report, signal),
        notice: (message) => {
          throw new Error(message);
        },
      },
      position,
    );
    this.#readers[rank] = reader;
    let { epoch, records } = position;
    const read = [...seen];
    let checkpoint: Checkpoint = { position, seen };
    let left = steps;
    for (let at = 0; ; ) {
      const piece = await reader.next(at, NEVER);
      if (piece === 'wait') {
        continue;
      }
      if (piece === 'over') {
        return { position: { epoch, records }, seen: read };
      }
      at++;
      if (piece.epoch !== epoch) {
        epoch = piece.epoch;
        records = 0;
      }
      const rows = await this.#rowsOf(piece.path);
      expect(rows).toHaveLength(piece.records);
      for (let start = piece.skip; start < rows.length; start += BATCH) {
        const batch = rows.slice(start, start + BATCH);
        checkpoint = this.#random() < 0.5 ? checkpoint : { position: { epoch, records }, seen: [...read] };
        read.push(...batch.map((row) => `${epoch}:${row}`));
        records += batch.length;
        if (--left === 0) {
          return checkpoint;
        }
      }
    }
  }

  async #rowsOf(file: string): Promise<string[]> {
    const text = await readFile(file, 'utf8');
    return text.match(new RegExp(`.{${RECORD_BYTES}}`, 'g'))?.map((row) => row.trim()) ?? [];
  }

  async #report(report: RankReport, signal: AbortSignal): Promise<RankPieces | null> {
    await pauseMs(0);
    const answer = this.#feed.answerTo(report, this.#feed.report(report).changed);
    if (answer !== 'wait') {
      return answer;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 3);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    return null;
  }

  async #send(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { needed, unassigned } = this.#feed.plan();
      const partition = unassigned[Math.floor(this.#random() * unassigned.length)];
      const offered = partition === undefined ? 'wait' : this.#feed.offer(partition).answer;
      const pieces = [...needed, ...(offered === 'wait' ? [] : offered)];
      for (const piece of pieces.filter(() => this.#random() < 0.7)) {
        await this.#deliver(piece, this.#random() < 0.2 ? 2 : 1);
      }
      await pauseMs(1);
    }
  }

  async #deliver({ rank, index, partition, from, to }: NeededPiece, copies: number): Promise<void> {
    const reader = this.#readers[rank];
    if (reader?.wants(index) !== true) {
      return;
    }
    const received = this.#received[rank] as ReceivedPieces;
    const end = to ?? (this.#case.sizes[partition] as number);
    const rows = Array.from({ length: end - from }, (_, row) => `${partition}:${from + row}`.padEnd(RECORD_BYTES));
    await Promise.all(
      Array.from({ length: copies }, async () => {
        if (await received.receive(reader.keyOf(index), Readable.from([encoded(rows.join(''), rows.length)]))) {
          this.#readers[rank]?.stored(index);
        }
      }),
    );
  }

  #fail(): void {
    if (this.#random() < 0.5) {
      this.#feed = PartitionFeed.restore(JSON.parse(JSON.stringify(this.#feed.store())));
    }
    const lost = Math.floor(this.#random() * this.#case.worldSize);
    if (this.#random() < 0.5) {
      this.#received[lost] = this.#newContainer();
    }
  }

  #newContainer(): ReceivedPieces {
    return new ReceivedPieces(path.join(this.#folder, `container-${++this.#containers}`));
  }
}

function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function encoded(content: string, records: number): Buffer {
  const frame = (bytes: Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const bytes = Buffer.from(content);
  return Buffer.concat([bytes.length > 0 ? frame(bytes) : bytes, Buffer.alloc(4), frame(Buffer.from(JSON.stringify({ records })))]);
}

/** The records of each epoch: each one once, except for those that `pad` repeats. */
function expected({ sizes, worldSize, epochs, shards }: Case): string[] {
  const pieces =
    shards === 'equal'
      ? equalShards(sizes, worldSize, 'pad').flat()
      : sizes.map((size, partition) => ({ partition, from: 0, to: size as number | null }));
  return Array.from({ length: epochs }, (_, epoch) =>
    pieces.flatMap(({ partition, from, to }) =>
      Array.from({ length: (to ?? 0) - from }, (_, row) => `${epoch}:${partition}:${from + row}`),
    ),
  ).flat();
}

const cases: fc.Arbitrary<Case> = fc
  .record({
    worldSize: fc.integer({ min: 1, max: 3 }),
    sizes: fc.array(fc.nat(12), { minLength: 3, maxLength: 14 }),
    epochs: fc.integer({ min: 1, max: 3 }),
    shards: fc.constantFrom('balanced' as const, 'equal' as const),
    seed: fc.option(fc.nat()),
    cache: fc.integer({ min: 1, max: 120 }),
    restarts: fc.nat(4),
    chance: fc.nat(),
  })
  .filter(({ sizes }) => sizes.some((size) => size > 0));

test('in each epoch, the ranks read each record once, through lost containers, restarts, and copies that arrive twice or not at all', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-reader-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let number = 0;
  await fc.assert(
    fc.asyncProperty(cases, async (each) => {
      const seen = await new Simulation(each, path.join(folder, String(number++))).run();
      expect([...seen].sort()).toEqual(expected(each).sort());
    }),
    { numRuns: 60 },
  );
});
