import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, messageOf, TonyError } from '../../platform/errors.ts';
import type { Ring } from './ring.ts';
import { gatherTexts } from './ring-bytes.ts';
import { CONTROL, type FromSyncRing, STATE, type SyncRingStart, type ToSyncRing } from './sync-ring-messages.ts';

/**
 * Blocks this thread while the cell at `index` contains `value`. Returns false if it still does after `ms`.
 *
 * A thread that writes a cell notifies waiting threads afterwards. This notification can arrive after the reading thread has seen the new
 * value and waits again for the next one, so a notification alone does not mean that the cell has changed.
 */
export function waitWhile(cells: Int32Array, index: number, value: number, ms: number): boolean {
  const end = performance.now() + ms;
  while (Atomics.load(cells, index) === value) {
    if (Atomics.wait(cells, index, value, Math.max(0, end - performance.now())) === 'timed-out') {
      return Atomics.load(cells, index) !== value;
    }
  }
  return true;
}

/** The minimum size in bytes of the shared buffer, which also transports error messages. */
const LEAST_BYTES = 4096;
const CLOSE_MS = 2000;

/**
 * Computes sums over all ranks for code that cannot await a promise, such as a layer's forward pass or gradient. The calling thread blocks
 * while a worker thread runs the ring. Suitable only for small vectors.
 */
export class SyncRing {
  readonly #ring: Ring;
  readonly #worker: Worker;
  readonly #control: Int32Array;
  readonly #numbers: Float32Array;
  readonly #deadlineMs: number;
  #closed = false;

  private constructor(ring: Ring, worker: Worker, start: SyncRingStart) {
    const { joinMs, silenceMs, graceMs } = start.timeouts;
    this.#ring = ring;
    this.#worker = worker;
    this.#control = new Int32Array(start.control);
    this.#numbers = new Float32Array(start.numbers);
    // The worker thread has shorter deadlines. This deadline applies only if the worker thread dies.
    this.#deadlineMs = Math.max(joinMs, silenceMs) + 2 * graceMs + 30_000;
  }

  /**
   * Starts a worker thread on every rank and connects these threads. Every rank must call this method.
   * @param capacity the length of the longest vector.
   * @returns null on all ranks if any rank cannot block its thread or cannot start a worker thread.
   * @throws TonyError RING_JOIN_FAILED, PEER_LOST.
   */
  static async open(ring: Ring, capacity: number): Promise<SyncRing | null> {
    const { rank, worldSize, generation, key, security, hosts, names, timeouts, sharesThread } = ring.setting;
    const start: SyncRingStart = {
      ...{ rank, worldSize, generation, security, names, timeouts },
      key: Uint8Array.from(key.reveal()),
      host: hosts[rank] as string,
      control: new SharedArrayBuffer(4 * CONTROL.length),
      numbers: new SharedArrayBuffer(Math.max(LEAST_BYTES, capacity * 4)),
    };
    const worker = sharesThread ? null : startWorker(start);
    const first = worker === null ? null : await firstMessage(worker, timeouts.joinMs);
    const ports = await gatherTexts(ring, String(first?.type === 'listening' ? first.port : 0));
    const addresses = ports.map((port, peer) => ({ host: hosts[peer] as string, port: Number(port) }));
    if (worker === null || addresses.some(({ port }) => port === 0)) {
      await worker?.terminate();
      return null;
    }
    send(worker, { type: 'join', addresses });
    const joined = await firstMessage(worker, 2 * timeouts.joinMs);
    if (joined?.type !== 'joined') {
      await worker.terminate();
      if (joined?.type === 'lost') {
        // The worker thread's ring lost a neighbour, so `barrier` throws PEER_LOST after the grace period.
        ring.lose(joined.rank, joined.cause);
        await ring.barrier();
      }
      throw failureOf(
        joined?.type === 'failed' ? joined : { code: 'RING_JOIN_FAILED', message: "the ring's worker thread has ended unexpectedly" },
      );
    }
    const syncRing = new SyncRing(ring, worker, start);
    worker.on('message', (message: FromSyncRing) => {
      if (message.type === 'lost') {
        ring.lose(message.rank, message.cause);
      }
    });
    worker.unref();
    return syncRing;
  }

  /**
   * Replaces `numbers` with their sums over all ranks. All ranks must make the same calls in the same order, and all get bit-identical
   * results.
   * @throws TonyError PEER_LOST, RING_MISMATCH.
   */
  sum(numbers: Float32Array): void {
    this.#numbers.set(numbers);
    Atomics.store(this.#control, CONTROL.state, STATE.asked);
    send(this.#worker, { type: 'sum', length: numbers.length });
    for (;;) {
      waitWhile(this.#control, CONTROL.state, STATE.asked, this.#deadlineMs);
      const state = Atomics.load(this.#control, CONTROL.state);
      if (state === STATE.done) {
        numbers.set(this.#numbers.subarray(0, numbers.length));
        return;
      }
      if (state === STATE.lost) {
        // Reports the loss to the job immediately. The worker thread reports the failed call after the grace period, which ends this loop.
        this.#ring.lose(Atomics.load(this.#control, CONTROL.lost), 'was lost during a step');
        Atomics.compareExchange(this.#control, CONTROL.state, STATE.lost, STATE.asked);
        continue;
      }
      throw state === STATE.failed ? this.#failure() : new TonyError('PEER_LOST', "the ring's worker thread has ended unexpectedly");
    }
  }

  #failure(): TonyError {
    const { buffer } = this.#numbers;
    const length = new DataView(buffer).getUint32(0, true);
    return failureOf(JSON.parse(Buffer.from(Uint8Array.from(new Uint8Array(buffer, 4, length))).toString('utf8')));
  }

  /** Closes the worker thread's ring. Blocks for at most CLOSE_MS, until the `bye` frames are queued. */
  close(): void {
    if (!this.#closed) {
      this.#closed = true;
      const state = Atomics.load(this.#control, CONTROL.state);
      send(this.#worker, { type: 'close' });
      if (state !== STATE.failed) {
        waitWhile(this.#control, CONTROL.state, state, CLOSE_MS);
      }
    }
  }
}

function send(worker: Worker, message: ToSyncRing): void {
  worker.postMessage(message);
}

function failureOf({ code, message }: { readonly code: string; readonly message: string }): TonyError {
  return new TonyError(code as ErrorCode, message);
}

/** Starts the worker thread from its bundle, or from its TypeScript source if Node.js can run it. Returns null if neither is possible. */
function startWorker(start: SyncRingStart): Worker | null {
  const bundle = new URL('sync-ring-worker.mjs', import.meta.url);
  const source = new URL('sync-ring-worker.ts', import.meta.url);
  const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript);
  const file = existsSync(fileURLToPath(bundle)) ? bundle : stripsTypes && existsSync(fileURLToPath(source)) ? source : null;
  return file === null ? null : new Worker(file, { workerData: start, execArgv: [] });
}

/** Returns the worker's next message, or null if the worker exits or sends none within `ms`. */
async function firstMessage(worker: Worker, ms: number): Promise<FromSyncRing | null> {
  return await new Promise((resolve) => {
    const settle = (message: FromSyncRing | null) => {
      clearTimeout(timer);
      worker.removeListener('message', settle).removeListener('exit', onEnd).removeListener('error', onError);
      resolve(message);
    };
    const onEnd = () => settle(null);
    const onError = (error: unknown) => settle({ type: 'failed', code: 'RING_JOIN_FAILED', message: messageOf(error) });
    const timer = setTimeout(onEnd, ms);
    worker.on('message', settle).on('exit', onEnd).on('error', onError);
  });
}
