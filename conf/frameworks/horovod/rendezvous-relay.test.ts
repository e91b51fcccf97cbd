import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RendezvousRelay } from './rendezvous-relay.ts';
import { LARGEST_RENDEZVOUS_VALUE } from './service-names.ts';

const answerOf = (head: object, body = '') => ({ head: Buffer.from(JSON.stringify(head)), body: Buffer.from(body, 'latin1') });

/** An ApplicationMaster that keeps the entries in a map. It is unreachable while `up` is false. */
class Master {
  readonly entries = new Map<string, string>();
  readonly asked: unknown[] = [];
  readonly notices: string[] = [];
  up = true;

  readonly ask = async (service: string, body: Uint8Array) => {
    const { key, value, ...rest } = JSON.parse(Buffer.from(body).toString()) as { key: string; value?: string };
    this.asked.push([service, key, ...Object.values(rest)]);
    if (!this.up) {
      return null;
    }
    if (service === 'rendezvous.put') {
      this.entries.set(key, Buffer.from(value ?? '', 'base64').toString('latin1'));
      return answerOf({ answer: 'stored' });
    }
    if (service === 'rendezvous.remove') {
      this.entries.delete(key);
      return answerOf({ answer: 'removed' });
    }
    const found = this.entries.get(key);
    return found === undefined ? answerOf({ answer: 'missing' }) : answerOf({ answer: 'found' }, found);
  };
}

async function open(master: Pick<Master, 'ask'> & { readonly notices: string[] }): Promise<RendezvousRelay> {
  const relay = await RendezvousRelay.open({
    ask: master.ask,
    notice: (message) => master.notices.push(message),
    log: pino({ level: 'silent' }),
  });
  onTestFinished(() => relay.close());
  return relay;
}

/** Sends bytes on a new connection, as Horovod does, and returns the response's status and body. */
async function send({ port }: RendezvousRelay, request: string): Promise<[status: number, body: string]> {
  const socket = connect(port, '127.0.0.1');
  socket.write(Buffer.from(request, 'latin1'));
  const answer = (await buffer(socket)).toString('latin1');
  const end = answer.indexOf('\r\n\r\n');
  const length = Number(/\r\nContent-Length: (\d+)\r\n/.exec(answer.slice(0, end + 2))?.[1]);
  return [Number(answer.split(' ', 2)[1]), answer.slice(end + 4, end + 4 + length)];
}

// Recorded from Horovod 0.28.1's `hvd.init()`; the value of global/0 is shortened.
const HEAD = 'HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length:';
const RECORDED = {
  putHost: `PUT /global/rank_0 ${HEAD} 4\r\n\r\nnode`,
  putAddress: `PUT /global/0 ${HEAD} 6\r\n\r\n\u0002\u0000\u00a1\u00e3\u007f\u0000`,
  getHost: `GET /global/rank_1 ${HEAD} 0\r\n\r\n`,
  getAddress: `GET /global/0 ${HEAD} 0\r\n\r\n`,
  remove: `DELETE /global/0 ${HEAD} 0\r\n\r\n`,
};

describe('the rendezvous relay', () => {
  it('the relay stores, returns and removes entries, and waits only for addresses', async () => {
    const master = new Master();
    const relay = await open(master);
    expect(await send(relay, RECORDED.getAddress)).toEqual([404, '']);
    expect(await send(relay, RECORDED.getHost)).toEqual([404, '']);
    expect(await send(relay, RECORDED.putHost)).toEqual([200, '']);
    expect(await send(relay, RECORDED.putAddress)).toEqual([200, '']);
    expect(await send(relay, RECORDED.getAddress)).toEqual([200, '\u0002\u0000\u00a1\u00e3\u007f\u0000']);
    expect([...master.entries.keys()]).toEqual(['global/rank_0', 'global/0']);
    expect(await send(relay, RECORDED.remove)).toEqual([200, '']);
    expect(master.entries.size).toBe(0);
    expect(master.asked.slice(0, 2)).toEqual([
      ['rendezvous.get', 'global/0', true],
      ['rendezvous.get', 'global/rank_1', false],
    ]);
  });

  it('the relay answers 503 while no ApplicationMaster is reachable, and sends the entries again to the next one', async () => {
    const master = new Master();
    const relay = await open(master);
    await send(relay, RECORDED.putHost);
    await send(relay, RECORDED.putAddress);
    master.up = false;
    expect(await send(relay, RECORDED.getAddress)).toEqual([503, '']);
    master.up = true;
    master.entries.clear();
    await relay.repeat();
    expect([...master.entries.keys()]).toEqual(['global/rank_0', 'global/0']);
    await send(relay, RECORDED.remove);
    await relay.repeat();
    expect(master.entries.size).toBe(0);
  });

  it('the relay answers with an error if the store is full, and tells the user once', async () => {
    const notices: string[] = [];
    let code = 'SERVICE_LOST';
    const relay = await open({ ask: async () => answerOf({ error: { code, message: 'it is full' } }), notices });
    expect(await send(relay, RECORDED.putAddress)).toEqual([507, '']);
    expect(notices).toEqual([]);
    code = 'RENDEZVOUS_FULL';
    expect(await send(relay, RECORDED.putAddress)).toEqual([507, '']);
    expect(await send(relay, RECORDED.putAddress)).toEqual([507, '']);
    expect(notices).toEqual([expect.stringContaining('it is full')]);
  });

  it.each([
    ['another path', `GET /../global/0 ${HEAD} 0\r\n\r\n`, 404],
    ['the scope of elastic jobs', `GET /rank_and_size/worker-0:0 ${HEAD} 0\r\n\r\n`, 404],
    ['a long path', `GET /${'x'.repeat(600)}/0 ${HEAD} 0\r\n\r\n`, 404],
    ['another method', `POST /global/0 ${HEAD} 0\r\n\r\n`, 405],
    ['a large value', `PUT /global/0 ${HEAD} ${LARGEST_RENDEZVOUS_VALUE + 1}\r\n\r\n${'x'.repeat(LARGEST_RENDEZVOUS_VALUE + 1)}`, 413],
  ])('the relay answers with an error to %s', async (_, request, status) => {
    const master = new Master();
    expect(await send(await open(master), request)).toEqual([status, '']);
    expect(master.asked).toEqual([]);
  });
});

it.skipIf(process.getuid?.() !== 0)('the rendezvous relay does not answer processes of other users', async () => {
  const master = new Master();
  const { port } = await open(master);
  const request = RECORDED.getAddress.replaceAll('\r\n', '\\r\\n');
  // The relay may close the connection before or after the request, so bash may report an error.
  const words = `exec 3<>/dev/tcp/127.0.0.1/${port}; printf '${request}' >&3; head -n 1 <&3 || true`;
  const { stdout } = await promisify(execFile)('/bin/bash', ['-c', words], { uid: 65_534, gid: 65_534, cwd: '/' });
  expect(stdout).toBe('');
  expect(master.asked).toEqual([]);
});
