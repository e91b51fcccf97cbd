import { Agent, get } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';

/** Messages to the observer of an ApplicationMaster. The observer runs in its own thread, so that the load generator does not delay it. */
export type Order =
  /** Proxies connections to this port, and records when calls and responses pass. */
  | { readonly type: 'record'; readonly host: string; readonly port: number }
  /** Repeatedly requests a small resource from a web server. */
  | { readonly type: 'probe'; readonly host: string; readonly port: number; readonly user: string }
  /** Discards the measurements so far. */
  | { readonly type: 'forget' }
  | { readonly type: 'report' };

export type Answer =
  | { readonly type: 'recording'; readonly port: number }
  | {
      readonly type: 'seen';
      /** The time from each response to the next call (ms). */
      readonly pauses: readonly number[];
      /** The time from each request's due time to its response (ms). */
      readonly answers: readonly number[];
      readonly lost: number;
      /** How late this thread's timers fire (ms). The thread is almost idle, so the machine itself causes this delay. */
      readonly idle: readonly number[];
    };

const PROBE_MS = 50;
const ANSWER_MS = 5_000;

/** Returns the header in which the ResourceManager's proxy sends the user name. */
export function proxied(user: string): { Cookie: string } {
  return { Cookie: `proxy-user=${user}` };
}

interface Measurements {
  pauses: number[];
  answers: number[];
  lost: number;
  idle: number[];
}

const noMeasurements = (): Measurements => ({ pauses: [], answers: [], lost: 0, idle: [] });

export function observe(): void {
  const port = parentPort;
  if (port === null) {
    return;
  }
  const seen = noMeasurements();
  const send = (answer: Answer): void => port.postMessage(answer);
  everyProbe((due) => seen.idle.push(performance.now() - due));
  port.on('message', (order: Order) => {
    switch (order.type) {
      case 'record':
        return record(order, seen, (recording) => send({ type: 'recording', port: recording }));
      case 'probe':
        return probe(order, seen);
      case 'forget':
        Object.assign(seen, noMeasurements());
        return;
      case 'report':
        return send({ type: 'seen', ...seen });
    }
  });
}

function record(target: Order & { type: 'record' }, seen: Measurements, listening: (port: number) => void): void {
  const server = createServer((client) => {
    const upstream = connect({ host: target.host, port: target.port, noDelay: true });
    client.setNoDelay(true);
    let answeredAt: number | null = null;
    carry(client, upstream, () => {
      if (answeredAt !== null) {
        seen.pauses.push(performance.now() - answeredAt);
      }
      answeredAt = null;
    });
    carry(upstream, client, () => {
      answeredAt = performance.now();
    });
  });
  server.listen(0, '127.0.0.1', () => listening((server.address() as AddressInfo).port));
  server.unref();
}

function probe({ host, port, user }: Order & { type: 'probe' }, seen: Measurements): void {
  const headers = proxied(user);
  const agent = new Agent({ keepAlive: true });
  // Each request is independent: if a request waited for an earlier one, its time would include the time of the earlier one.
  everyProbe((due) => {
    const request = get({ agent, headers, host, port, path: '/tony/api/none', timeout: ANSWER_MS });
    request.once('response', (response) => response.resume().once('end', () => seen.answers.push(performance.now() - due)));
    request.once('timeout', () => request.destroy());
    request.once('error', () => seen.lost++);
  });
}

/** Calls `act` for each due time. If the timer fires late, calls it for all due times that have passed. */
function everyProbe(act: (due: number) => void): void {
  let due = performance.now() + PROBE_MS;
  const tick = (): void => {
    for (; due <= performance.now(); due += PROBE_MS) {
      act(due);
    }
    setTimeout(tick, due - performance.now()).unref();
  };
  tick();
}

function carry(from: Socket, to: Socket, passed: () => void): void {
  from.on('data', (piece) => {
    passed();
    to.write(piece);
  });
  from
    .on('end', () => to.end())
    .on('error', () => to.destroy())
    .on('close', () => to.destroy());
}
