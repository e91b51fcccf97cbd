import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, messageOf, TonyError } from '../conf/errors.ts';
import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';
import { CONTROL, type FromSyncRing, STATE, type SyncRingStart, type ToSyncRing } from './sync-ring-messages.ts';

/** Of a failure's text. */
const LEAST_BYTES = 4096;
const CLOSE_MS = 2000;

/**
 * Sums over all ranks for code that cannot wait for a promise: what runs within a forward pass and its gradients. The sockets belong to a
 * thread of its own; the caller's thread stops until the sum is there. Not for large vectors.
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
    // The other thread keeps to its own deadlines: this one is for the case that it has died.
    this.#deadlineMs = Math.max(joinMs, silenceMs) + 2 * graceMs + 30_000;
  }

  /**
   * Every rank calls it.
   * @param capacity the longest vector, in numbers.
   * @returns null on all ranks when one of them cannot block its thread, or has no threads.
   * @throws TonyError RING_JOIN_FAILED, PEER_LOST.
   */
  static async open(ring: Ring, capacity: number): Promise<SyncRing | null> {
    const { rank, worldSize, generation, key, hosts, timeouts, sharesThread } = ring.setting;
    const start: SyncRingStart = {
      ...{ rank, worldSize, generation, timeouts },
      key: Uint8Array.from(key.reveal()),
      host: hosts[rank] as string,
      control: new SharedArrayBuffer(4 * CONTROL.length),
      numbers: new SharedArrayBuffer(Math.max(LEAST_BYTES, capacity * 4)),
    };
    const worker = sharesThread ? null : startWorker(start);
    const heard = worker === null ? null : await firstMessage(worker, timeouts.joinMs);
    const ports = await gatherBytes(ring, Buffer.from(String(heard?.type === 'listening' ? heard.port : 0)));
    const addresses = ports.map((port, peer) => ({ host: hosts[peer] as string, port: Number(Buffer.from(port).toString()) }));
    if (worker === null || addresses.some(({ port }) => port === 0)) {
      await worker?.terminate();
      return null;
    }
    send(worker, { type: 'join', addresses });
    const joined = await firstMessage(worker, 2 * timeouts.joinMs);
    if (joined?.type !== 'joined') {
      await worker.terminate();
      if (joined?.type === 'lost') {
        // One that had joined is gone already: wait to be stopped, as after any loss.
        ring.lose(joined.rank, joined.cause);
        await ring.barrier();
      }
      throw failureOf(joined?.type === 'failed' ? joined : { code: 'RING_JOIN_FAILED', message: 'the thread of a ring has ended' });
    }
    const made = new SyncRing(ring, worker, start);
    worker.on('message', (message: FromSyncRing) => {
      if (message.type === 'lost') {
        ring.lose(message.rank, message.cause);
      }
    });
    // An idle one keeps no process alive.
    worker.unref();
    return made;
  }

  /**
   * Replaces `numbers` by their sums over all ranks, the same bits everywhere. Every rank makes the same calls in the same order.
   * @throws TonyError PEER_LOST, RING_MISMATCH.
   */
  sum(numbers: Float32Array): void {
    this.#numbers.set(numbers);
    Atomics.store(this.#control, CONTROL.state, STATE.asked);
    send(this.#worker, { type: 'sum', length: numbers.length });
    for (;;) {
      Atomics.wait(this.#control, CONTROL.state, STATE.asked, this.#deadlineMs);
      const state = Atomics.load(this.#control, CONTROL.state);
      if (state === STATE.done) {
        numbers.set(this.#numbers.subarray(0, numbers.length));
        return;
      }
      if (state === STATE.lost) {
        // Said at once; the thread with the sockets waits to be stopped, and so does this one.
        this.#ring.lose(Atomics.load(this.#control, CONTROL.lost), 'was lost within a step');
        Atomics.compareExchange(this.#control, CONTROL.state, STATE.lost, STATE.asked);
        continue;
      }
      throw state === STATE.failed ? this.#failure() : new TonyError('PEER_LOST', 'the thread of a ring has ended');
    }
  }

  #failure(): TonyError {
    const { buffer } = this.#numbers;
    const length = new DataView(buffer).getUint32(0, true);
    return failureOf(JSON.parse(Buffer.from(Uint8Array.from(new Uint8Array(buffer, 4, length))).toString('utf8')));
  }

  /** Says goodbye to the other ranks, and returns when that is on its way. */
  close(): void {
    if (!this.#closed) {
      this.#closed = true;
      const state = Atomics.load(this.#control, CONTROL.state);
      send(this.#worker, { type: 'close' });
      if (state !== STATE.failed) {
        Atomics.wait(this.#control, CONTROL.state, state, CLOSE_MS);
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

/** Beside the bundle, or beside this very file where Node strips types. */
function startWorker(start: SyncRingStart): Worker | null {
  const bundle = new URL('sync-ring-worker.mjs', import.meta.url);
  const source = new URL('sync-ring-worker.ts', import.meta.url);
  const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript);
  const file = existsSync(fileURLToPath(bundle)) ? bundle : stripsTypes && existsSync(fileURLToPath(source)) ? source : null;
  return file === null ? null : new Worker(file, { workerData: start, execArgv: [] });
}

/** null when the thread has ended, or says nothing in time. */
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
