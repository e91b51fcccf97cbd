import { Agent, get } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';

/** How an ApplicationMaster looks from outside. Runs in a thread of its own, so that whoever makes the load does not hold it up. */
export type Order =
  /** Carries connections to this port, and notes when calls and answers pass. */
  | { readonly type: 'record'; readonly host: string; readonly port: number }
  /** Asks a web server for something small, again and again. */
  | { readonly type: 'probe'; readonly host: string; readonly port: number; readonly user: string }
  /** Forgets what was seen so far. */
  | { readonly type: 'forget' }
  | { readonly type: 'report' };

export type Answer =
  | { readonly type: 'recording'; readonly port: number }
  | {
      readonly type: 'seen';
      /** From each answer to the next call, ms. */
      readonly pauses: readonly number[];
      /** From when each question was due to its answer, ms. */
      readonly answers: readonly number[];
      readonly lost: number;
      /** How late timers of this thread were, which has next to nothing to do: what the machine itself is late by, ms. */
      readonly idle: readonly number[];
    };

const PROBE_MS = 50;
const ANSWER_MS = 5_000;

/** As the ResourceManager's proxy names who asks. */
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
    // Whatever became of the ones before: a question that waits for another would count that one's time as its own.
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
    // Each that would have been due in the meantime, as with the questions.
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
