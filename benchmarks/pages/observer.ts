import { Agent, get } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';

/** Observes an ApplicationMaster from outside. Runs in its own thread, so that the load generator does not delay it. */
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
      /** Time from each response to the next call, ms. */
      readonly pauses: readonly number[];
      /** Time from each request's due time to its response, ms. */
      readonly answers: readonly number[];
      readonly lost: number;
      /** Lateness of this thread's timers, ms. The thread is almost idle, so this is the delay that the machine itself adds. */
      readonly idle: readonly number[];
    };

const PROBE_MS = 50;
const ANSWER_MS = 5_000;

/** The header in which the ResourceManager's proxy names the user. */
export function proxied(user: string): { Cookie: string } {
  return { Cookie: `proxy-user=${user}` };
}

export function observe(): void {
  const port = parentPort;
  if (port === null) return;
  let pauses: number[] = [];
  let answers: number[] = [];
  let lost = 0;
  let idle: number[] = [];
  const say = (answer: Answer): void => port.postMessage(answer);

  function record(target: { host: string; port: number }): void {
    const server = createServer((client) => {
      const upstream = connect({ host: target.host, port: target.port, noDelay: true });
      client.setNoDelay(true);
      let answeredAt: number | null = null;
      carry(client, upstream, () => {
        if (answeredAt !== null) pauses.push(performance.now() - answeredAt);
        answeredAt = null;
      });
      carry(upstream, client, () => {
        answeredAt = performance.now();
      });
    });
    server.listen(0, '127.0.0.1', () => say({ type: 'recording', port: (server.address() as AddressInfo).port }));
    server.unref();
  }

  function probe({ host, port, user }: Order & { type: 'probe' }): void {
    const headers = proxied(user);
    const agent = new Agent({ keepAlive: true });
    let due = performance.now();
    // Independent of earlier requests: a request that waited for another would include that request's time in its own.
    const ask = (): void => {
      for (; due <= performance.now(); due += PROBE_MS) question(due);
      setTimeout(ask, due - performance.now()).unref();
    };
    const question = (since: number): void => {
      const asked = get({ agent, headers, host, port, path: '/tony/api/none', timeout: ANSWER_MS });
      asked.once('response', (response) => response.resume().once('end', () => answers.push(performance.now() - since)));
      asked.once('timeout', () => asked.destroy());
      asked.once('error', () => lost++);
    };
    ask();
  }

  let tick = performance.now() + PROBE_MS;
  const beat = (): void => {
    // Also counts the timers that would have been due in the meantime, as for the requests.
    for (; tick <= performance.now(); tick += PROBE_MS) idle.push(performance.now() - tick);
    setTimeout(beat, tick - performance.now()).unref();
  };
  setTimeout(beat, PROBE_MS).unref();

  port.on('message', (order: Order) => {
    switch (order.type) {
      case 'record':
        return record(order);
      case 'probe':
        return probe(order);
      case 'forget':
        [pauses, answers, lost, idle] = [[], [], 0, []];
        return;
      case 'report':
        return say({ type: 'seen', pauses, answers, lost, idle });
    }
  });
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
