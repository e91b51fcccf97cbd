import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SPLITS_JOIN, SPLITS_NEXT, TRAINING_ENDED } from '../../contract/services/service-names.ts';
import { createRandom } from '../../platform/random.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Entry } from '../../storage/storage.ts';
import { DurableNotes, type DurableNotesOptions } from './durable-notes.ts';
import { JobServices } from './services.ts';

const log = pino({ level: 'silent' });
let folder = '';

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'services-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** In-memory storage with delays. An operation takes effect after some iterations of the event loop and completes later. */
class MemoryStorage {
  readonly #files = new Map<string, Buffer>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  async write(uri: string, data: Uint8Array | AsyncIterable<Uint8Array>): Promise<boolean> {
    const bytes = Buffer.from(data as Uint8Array);
    await this.#take(() => this.#files.set(uri, bytes));
    return true;
  }

  async stat(uri: string): Promise<Entry | null> {
    const size = await this.#take(() => this.#files.get(uri)?.length);
    if (size === undefined) {
      return null;
    }
    return { uri, name: path.basename(uri), type: 'file', size, modifiedAt: 0, permission: 0o600, owner: '' };
  }

  async read(uri: string): Promise<Buffer> {
    return await this.#take(() => this.#files.get(uri) ?? Buffer.alloc(0));
  }

  async #take<T>(happen: () => T): Promise<T> {
    await this.#pass();
    const happened = happen();
    await this.#pass();
    return happened;
  }

  async #pass(): Promise<void> {
    // Most delays are short. A few are so long that other requests complete in the meantime.
    for (let turns = Math.floor(this.#random() ** 4 * 30); turns > 0; turns--) {
      await turn();
    }
  }
}

/** Successive ApplicationMaster attempts with shared storage. */
class Masters {
  hasTrainingEnded = false;
  attempt = 0;
  readonly alive = new Set<string>();
  services: JobServices;
  readonly #storage: DurableNotesOptions['storage'];

  constructor(storage: DurableNotesOptions['storage'] = new FileStorage()) {
    this.#storage = storage;
    this.services = this.replace();
  }

  /** The previous attempt continues, as if it had lost its network connection. */
  replace(): JobServices {
    const attempt = ++this.attempt;
    this.services = new JobServices({
      notes: (content) =>
        new DurableNotes({
          storage: this.#storage,
          staging: pathToFileURL(folder).href,
          attempt,
          content,
          newestAttempt: async () => this.attempt,
          pauseMs: 0,
          log,
        }),
      addressed: Promise.resolve(),
      isAlive: (containerId) => this.alive.has(containerId),
      hasTrainingEnded: () => this.hasTrainingEnded,
      openFeedServer: () => Promise.reject(new Error('no feeds here')),
      framework: null,
      log,
    });
    return this.services;
  }
}

async function ask(services: JobServices, service: string, asked: object, containerId = 'c0', generation = 1): Promise<unknown> {
  const call = { containerId, role: 'worker', ranked: true, generation, service, body: Buffer.from(JSON.stringify(asked)) };
  const given = await services.serve({ ...call, signal: new AbortController().signal });
  if (given === null) {
    return null;
  }
  const { answer, error } = JSON.parse(Buffer.from(given.head).toString()) as { answer?: unknown; error?: { code: string } };
  return error === undefined ? answer : error.code;
}

const pass = { kind: 'shares', fingerprint: 'f', splits: 4, passes: [0], reading: 0, share: { index: 0, count: 2 } };

describe('services', () => {
  it('reject unknown services and malformed requests', async () => {
    const { services } = new Masters();
    expect(await ask(services, 'cook', {})).toBe('USAGE');
    expect(await ask(services, SPLITS_JOIN, { ...pass, splits: 1e9 })).toBe('DATA_INVALID');
    expect(await ask(services, SPLITS_NEXT, { ...pass, at: 0 })).toBe('forgotten');
    expect(await ask(services, SPLITS_JOIN, pass, 'c0', 2)).toBe('joined');
    expect(await ask(services, SPLITS_JOIN, pass, 'c0', 1)).toBe('SERVICE_LOST');
    services.close();
  });

  it('tell whether the training has ended', async () => {
    const masters = new Masters();
    expect(await ask(masters.services, TRAINING_ENDED, {})).toBe(false);
    masters.hasTrainingEnded = true;
    expect(await ask(masters.services, TRAINING_ENDED, {})).toBe(true);
    masters.services.close();
  });

  it('do not send an answer that must be stored if their attempt is superseded', async () => {
    const masters = new Masters();
    const old = masters.services;
    await ask(old, SPLITS_JOIN, pass);
    expect(await ask(old, SPLITS_NEXT, { ...pass, at: 0 })).toEqual({ split: 0 });
    const next = masters.replace();
    expect(await ask(next, SPLITS_NEXT, { ...pass, at: 0 })).toEqual({ split: 0 });
    expect(await ask(old, SPLITS_NEXT, { ...pass, at: 1 })).toBeNull();
    expect(await ask(next, SPLITS_NEXT, { ...pass, at: 1 })).toEqual({ split: 1 });
    old.close();
    next.close();
  });

  it('give each split to exactly one reader, even if answers are lost and attempts are replaced', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.integer({ min: 1, max: 15 }), async (seed, splits) => {
        const random = createRandom(seed >>> 0);
        const masters = new Masters(new MemoryStorage(createRandom(seed >>> 0, 1)));
        const opened = [masters.services];
        const read = async (index: number): Promise<number[]> => {
          const place = { ...pass, splits, share: { index, count: 3 } };
          const own: number[] = [];
          let isOver = false;
          let joined = false;
          const trail: string[] = [];
          for (let turn = 0; !isOver; turn++) {
            if (turn > 500) {
              throw new Error(`reader ${index} has not ended: ${trail.slice(0, 40).join(', ')}`);
            }
            if (random() < 0.1 && masters.attempt < 6) {
              opened.push(masters.replace());
            }
            const to = random() < 0.2 ? (opened[Math.floor(random() * opened.length)] as JobServices) : masters.services;
            const question = joined ? { ...place, at: own.length } : { ...place, log: own, restored: false };
            const answer = await ask(to, joined ? SPLITS_NEXT : SPLITS_JOIN, question);
            trail.push(`${opened.indexOf(to)} of ${opened.length}: ${JSON.stringify(answer)}`);
            if (answer === null || random() < 0.2) {
              continue;
            }
            if (answer === 'forgotten') {
              joined = false;
            } else if (answer === 'joined') {
              joined = true;
            } else if (answer === 'over') {
              isOver = true;
            } else if (answer !== 'wait') {
              own.push((answer as { split: number }).split ?? -1);
            }
          }
          return own;
        };
        const logs = await Promise.all([read(0), read(1), read(2)]);
        for (const each of opened) {
          each.close();
        }
        expect(logs.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: splits }, (_, split) => split));
      }),
      { numRuns: 150 },
    );
  });

  it('reassign the split of a dead worker to other workers', async () => {
    const masters = new Masters();
    const { services } = masters;
    const work = { ...pass, kind: 'workers', splits: 1 };
    masters.alive.add('c0').add('c1');
    await ask(services, SPLITS_JOIN, work, 'c0');
    await ask(services, SPLITS_JOIN, work, 'c1');
    expect(await ask(services, SPLITS_NEXT, { ...work, at: 0 }, 'c0')).toEqual({ split: 0 });
    const waiting = ask(services, SPLITS_NEXT, { ...work, at: 0 }, 'c1');
    masters.alive.delete('c0');
    expect(await waiting).toEqual({ split: 0 });
    expect(await ask(services, SPLITS_NEXT, { ...work, at: 1, done: [0] }, 'c1')).toBe('over');
    services.close();
  });
});
