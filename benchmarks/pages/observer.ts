import { Agent, get } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';

/** Messages to the observer of an ApplicationMaster. The observer runs in its own thread, so that the load generator does not delay it. */
export type Order =
  /** Proxies connections to this port, and records the times of calls and responses. */
  | { readonly type: 'record'; readonly host: string; readonly port: number }
  /** Repeatedly requests a small resource from a web server. */
  | { readonly type: 'probe'; readonly host: string; readonly port: number; readonly user: string }
  | { readonly type: 'forget' }
  | { readonly type: 'report' };

export type Answer =
  | { readonly type: 'recording'; readonly port: number }
  | {
      readonly type: 'seen';
      /** Time in ms from each response to the next call. */
      readonly pauses: readonly number[];
      /** Time in ms from each request's due time to its response. */
      readonly answers: readonly number[];
      readonly lost: number;
      /** Delay in ms of this thread's timers. The thread is almost idle, so the machine itself causes this delay. */
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
  // Requests do not wait for each other. The time of a request therefore does not include the time of an earlier request.
  everyProbe((due) => {
    const request = get({ agent, headers, host, port, path: '/tony/api/v1/none', timeout: ANSWER_MS });
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
