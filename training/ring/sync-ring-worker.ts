/** A SyncRing's worker thread. It runs a ring on behalf of the blocked calling thread. See sync-ring.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { openEarlyListener } from '../../contract/connections/listener.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import { Ring } from './ring.ts';
import { CONTROL, type FromSyncRing, STATE, type SyncRingStart, type ToSyncRing } from './sync-ring-messages.ts';

const start = workerData as SyncRingStart;
const control = new Int32Array(start.control);
const shared = new Float32Array(start.numbers);
let ring: Ring | null = null;
let hasLost = false;

const post = (message: FromSyncRing): void => parentPort?.postMessage(message);

function wake(state: number): void {
  Atomics.store(control, CONTROL.state, state);
  Atomics.notify(control, CONTROL.state);
}

function onLost(rank: number, cause: string): void {
  // If the calling thread is blocked, it is notified of the loss through shared memory. Otherwise, it is notified by the message.
  post({ type: 'lost', rank, cause });
  Atomics.store(control, CONTROL.lost, rank);
  hasLost = true;
  notifyBlockedThread();
}

function notifyBlockedThread(): void {
  if (Atomics.compareExchange(control, CONTROL.state, STATE.asked, STATE.lost) === STATE.asked) {
    Atomics.notify(control, CONTROL.state);
  }
}

function fail(error: unknown): void {
  const failure = { code: error instanceof TonyError ? error.code : 'PEER_LOST', message: messageOf(error) };
  post({ type: 'failed', ...failure });
  const text = Buffer.from(JSON.stringify(failure));
  const bytes = new Uint8Array(start.numbers);
  new DataView(start.numbers).setUint32(0, Math.min(text.length, bytes.length - 4), true);
  bytes.set(text.subarray(0, bytes.length - 4), 4);
  wake(STATE.failed);
}

const listener = await openEarlyListener(start.host);
const vectors = new Map<number, Float32Array<ArrayBuffer>>();

async function answer(message: ToSyncRing): Promise<void> {
  switch (message.type) {
    case 'join': {
      const { rank, worldSize, generation, security, names, timeouts } = start;
      const { addresses } = message;
      const key = new Secret(start.key);
      const { server } = listener;
      ring = await Ring.join({ rank, worldSize, generation, key, security, listener: server, addresses, names, onLost, timeouts });
      post({ type: 'joined' });
      return;
    }
    case 'sum': {
      // The ring may have lost the neighbour while the calling thread was not blocked.
      if (hasLost) {
        notifyBlockedThread();
      }
      const vector = vectors.get(message.length) ?? (ring as Ring).vector(message.length);
      vectors.set(message.length, vector);
      vector.set(shared.subarray(0, message.length));
      await (ring as Ring).allReduce(vector);
      shared.set(vector);
      wake(STATE.done);
      return;
    }
    case 'close':
      ring?.close();
      listener.server.close();
      parentPort?.close();
      wake(STATE.closed);
      return;
  }
}

parentPort?.on('message', (message: ToSyncRing) => {
  answer(message).catch(fail);
});
post({ type: 'listening', port: listener.port });
