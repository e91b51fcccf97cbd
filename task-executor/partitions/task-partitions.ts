import { rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import * as z from 'zod';
import { batchPrefix, feedName, parseFeedRequest, type RankPieces, type RankReport } from '../../contract/partitions/partition-feed.ts';
import type { ServiceFrame } from '../../contract/services/service-frame.ts';
import {
  FEED_KIND,
  PARTITIONS_DOOR,
  PARTITIONS_NEXT_BATCH,
  PARTITIONS_OFFER,
  PARTITIONS_OPEN,
  PARTITIONS_PLAN,
  PARTITIONS_REPORT,
  PARTITIONS_STREAM,
  PIECES_KIND,
  PIECES_NEXT,
  PIECES_NEXT_BATCH,
  PIECES_OPEN,
  REQUESTS_NEXT,
  REQUESTS_REPLY,
} from '../../contract/services/service-names.ts';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Secret } from '../../platform/secret.ts';
import { Door } from './door.ts';
import { RankReader } from './rank-reader.ts';
import { type ReceivedPiece, ReceivedPieces } from './received-pieces.ts';
import { RequestQueue } from './request-queue.ts';

const count = z.number().int().nonnegative();
const kindQuestion = z.object({ feed: feedName, worldSize: count.min(1) });
const openQuestion = z.object({
  feed: feedName,
  rank: count,
  worldSize: count.min(1),
  /** Null if the program only asks what the source has declared. */
  position: z.object({ epoch: count, records: count }).nullable(),
});
const requestQuestion = z.object({ feed: feedName });
const replyQuestion = z.object({ feed: feedName, id: count, path: z.string().refine(path.isAbsolute) });
const streamQuestion = z.looseObject({ feed: feedName, rank: count });
const batchAnswer = z.object({ answer: z.object({ feed: feedName }) });
const nextQuestion = z.object({ feed: feedName, rank: count, at: count });

export interface TaskPartitionsOptions {
  readonly settings: {
    /** Absolute path of the container's working directory. */
    readonly folder: string;
    /** Host name that peers use to connect to this container. */
    readonly host: string;
    readonly certificate: Secret;
    readonly privateKey: Secret;
  };
  /** Sends a request to the ApplicationMaster. Returns null if it cannot be reached. */
  readonly ask: (generation: number, service: string, body: Uint8Array, signal: AbortSignal) => Promise<ServiceFrame | null>;
  readonly notice: (message: string) => void;
  readonly log: Logger;
}

const SOURCE_SERVICES = { open: PARTITIONS_OPEN, plan: PARTITIONS_PLAN, offer: PARTITIONS_OFFER, stream: PARTITIONS_STREAM };

/** Maximum time in ms to delay the answer to a program that waits for a request. */
const HOLD_MS = 10_000;

/** Receives the partitions of feeds for this task's processes. Keeps them when the program restarts. */
export class TaskPartitions {
  readonly #options: TaskPartitionsOptions;
  readonly #received: ReceivedPieces;
  readonly #readers = new Map<string, RankReader>();
  readonly #queues = new Map<string, RequestQueue>();
  /** Wakes the program's processes that wait for a request. */
  #arrival = new AbortController();
  #requests = 0;
  /** Time at which the door was last published for requests. */
  #publishedAt = Number.NEGATIVE_INFINITY;
  #door: Promise<Door> | null = null;
  #generation = 0;

  constructor(options: TaskPartitionsOptions) {
    this.#options = options;
    this.#received = new ReceivedPieces(path.join(options.settings.folder, 'partitions'));
  }

  /** Handles a request from the program. Returns null if the program must retry. */
  async serve(generation: number, service: string, body: Uint8Array, signal: AbortSignal): Promise<ServiceFrame | null> {
    try {
      if (generation > this.#generation) {
        this.endProgram();
        this.#generation = generation;
      }
      return await this.#answer(service, body, signal);
    } catch (error) {
      const { code, message, hint } = error instanceof TonyError ? error : new TonyError('INTERNAL', messageOf(error), { cause: error });
      return { head: Buffer.from(JSON.stringify({ error: { code, message, hint } })), body: Buffer.alloc(0) };
    }
  }

  /** Stops requesting pieces, because the program has ended. */
  endProgram(): void {
    for (const reader of this.#readers.values()) {
      reader.close();
    }
    this.#readers.clear();
    for (const queue of this.#queues.values()) {
      queue.close();
    }
    this.#queues.clear();
    this.#publishedAt = Number.NEGATIVE_INFINITY;
  }

  async #answer(service: string, body: Uint8Array, signal: AbortSignal): Promise<ServiceFrame | null> {
    switch (service) {
      case PIECES_KIND: {
        const door = await this.#openDoor();
        const question = { ...parse(kindQuestion, body), door };
        return await this.#options.ask(this.#generation, FEED_KIND, Buffer.from(JSON.stringify(question)), signal);
      }
      case PIECES_OPEN: {
        const { position, ...question } = parse(openQuestion, body);
        const key = readerKey(question.feed, question.rank);
        this.#readers.get(key)?.close();
        const generation = this.#generation;
        const reader = new RankReader(
          {
            ...question,
            door: await this.#openDoor(),
            received: this.#received,
            readers: () => [...this.#readers.values()],
            report: (report, each) => this.#report(generation, report, each),
            notice: this.#options.notice,
          },
          position,
        );
        this.#readers.set(key, reader);
        const opening = await reader.opened(signal);
        if (opening === null) {
          return null;
        }
        const { format, partitions, epochs, shards, seed } = opening;
        return answer({ format, partitions, epochs, shards, seed });
      }
      case PIECES_NEXT: {
        const { feed: name, rank, at } = parse(nextQuestion, body);
        const reader = this.#readers.get(readerKey(name, rank));
        if (reader === undefined) {
          throw new TonyError('DATA_INVALID', `rank ${rank} has not opened feed ${name}`);
        }
        return answer(await reader.next(at, signal));
      }
      case PIECES_NEXT_BATCH:
        return await this.#nextBatch(parse(streamQuestion, body), signal);
      case REQUESTS_NEXT:
        return await this.#nextRequest(parse(requestQuestion, body).feed, signal);
      case REQUESTS_REPLY: {
        const { feed: name, id, path: reply } = parse(replyQuestion, body);
        if (this.#queues.get(name)?.reply(id, reply) !== true) {
          await rm(reply, { force: true });
        }
        return answer('replied');
      }
      default:
        throw new TonyError('USAGE', `unknown service ${service}`, { hint: 'Use the same version of tony-ts on all machines.' });
    }
  }

  async #openDoor(): Promise<{ readonly host: string; readonly port: number }> {
    const { settings, log } = this.#options;
    this.#door ??= Door.open({
      ...settings,
      receive: (name, rank, index, body) => this.#receive(name, rank, index, body),
      answer: (...request) => this.#request(...request),
      end: (name) => {
        const queue = this.#queues.get(name);
        if (queue !== undefined) {
          queue.isOver = true;
          this.#arrive();
        }
      },
      forward: (request, body, signal) => this.#options.ask(this.#generation, SOURCE_SERVICES[request], body, signal),
      log,
    });
    try {
      const { port } = await this.#door;
      return { host: settings.host, port };
    } catch (error) {
      this.#door = null;
      throw error;
    }
  }

  async #receive(name: string, rank: number, index: number, body: IncomingMessage): Promise<boolean> {
    const reader = this.#readers.get(readerKey(name, rank));
    const key = reader?.keyOf(index) ?? '';
    if (reader?.wants(index) !== true && this.#received.get(key) === undefined) {
      return false;
    }
    if (await this.#received.receive(key, body)) {
      // The program may have restarted in the meantime.
      this.#readers.get(readerKey(name, rank))?.stored(index);
    }
    return true;
  }

  /** Asks for the next micro-batch of a stream. Then removes the rank's pieces of earlier ones, because a checkpoint contains them. */
  async #nextBatch(question: z.infer<typeof streamQuestion>, signal: AbortSignal): Promise<ServiceFrame | null> {
    const body = Buffer.from(JSON.stringify({ ...question, door: await this.#openDoor() }));
    const frame = await this.#options.ask(this.#generation, PARTITIONS_NEXT_BATCH, body, signal);
    const found = batchAnswer.safeParse(frame && JSON.parse(Buffer.from(frame.head).toString('utf8')));
    if (found.success) {
      this.#forgetBatches(question, found.data.answer.feed);
    }
    return frame;
  }

  #forgetBatches({ feed: stream, rank }: z.infer<typeof streamQuestion>, current: string): void {
    for (const [key, reader] of this.#readers) {
      if (key.startsWith(readerKey(batchPrefix(stream), rank)) && key !== readerKey(current, rank)) {
        reader.close();
        this.#readers.delete(key);
      }
    }
    // An earlier program of this container may also have left pieces.
    for (const key of this.#received.keys()) {
      const isEarlier = key.startsWith(batchPrefix(stream)) && !key.startsWith(`${current}-`);
      if (isEarlier && key.split('-').at(-2) === String(rank)) {
        this.#received.remove(key);
      }
    }
  }

  async #nextRequest(name: string, signal: AbortSignal): Promise<ServiceFrame | null> {
    const queue = this.#queues.get(name) ?? new RequestQueue();
    this.#queues.set(name, queue);
    // Repeated, because a new attempt of the ApplicationMaster does not know the door.
    if (performance.now() > this.#publishedAt + HOLD_MS) {
      const door = Buffer.from(JSON.stringify(await this.#openDoor()));
      if ((await this.#options.ask(this.#generation, PARTITIONS_DOOR, door, signal)) === null) {
        return null;
      }
      this.#publishedAt = performance.now();
    }
    const until = performance.now() + HOLD_MS;
    for (;;) {
      const request = queue.take();
      const left = until - performance.now();
      if (request !== null || queue.isOver || left <= 0 || signal.aborted) {
        return answer(request ?? (queue.isOver ? 'over' : 'wait'));
      }
      await pause(left, anySignal([signal, this.#arrival.signal]));
    }
  }

  /** Stores a request in a file, and waits until the program has replied with another file. */
  async #request(name: string, format: 'arrow' | 'pickle', body: IncomingMessage, signal: AbortSignal): Promise<string | 404 | 503> {
    const queue = this.#queues.get(name);
    if (queue === undefined || !queue.reserve()) {
      return queue === undefined ? 404 : 503;
    }
    const key = `request-${++this.#requests}`;
    try {
      await this.#received.receive(key, body);
    } catch (error) {
      queue.release();
      throw error;
    }
    try {
      const { file } = this.#received.get(key) as ReceivedPiece;
      const reply = await new Promise<string | null>((resolve) => {
        const id = queue.add(file, format, resolve);
        signal.addEventListener('abort', () => queue.withdraw(id));
        this.#arrive();
      });
      return reply ?? 503;
    } finally {
      this.#received.remove(key);
    }
  }

  #arrive(): void {
    this.#arrival.abort();
    this.#arrival = new AbortController();
  }

  async #report(generation: number, report: RankReport, signal: AbortSignal): Promise<RankPieces | null> {
    const frame = await this.#options.ask(generation, PARTITIONS_REPORT, Buffer.from(JSON.stringify(report)), signal);
    if (frame === null) {
      return null;
    }
    const { answer: found, error } = JSON.parse(Buffer.from(frame.head).toString('utf8')) as {
      answer?: RankPieces | 'wait';
      error?: { code: ConstructorParameters<typeof TonyError>[0]; message: string; hint?: string };
    };
    if (error !== undefined) {
      throw new TonyError(error.code, error.message, error.hint === undefined ? {} : { hint: error.hint });
    }
    return found === undefined || found === 'wait' ? null : found;
  }
}

function readerKey(name: string, rank: number): string {
  return `${rank}/${name}`;
}

function answer(value: unknown): ServiceFrame {
  return { head: Buffer.from(JSON.stringify({ answer: value })), body: Buffer.alloc(0) };
}

function parse<Type>(schema: z.ZodType<Type>, body: Uint8Array): Type {
  return parseFeedRequest(schema, JSON.parse(Buffer.from(body).toString('utf8')));
}
