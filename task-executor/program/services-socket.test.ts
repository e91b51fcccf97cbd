import { mkdtemp, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ANSWER_LIMITS, encodeFrame, readFrame, type ServiceFrame } from '../../contract/services/service-frame.ts';
import { socketPath } from '../../contract/services/service-socket.ts';
import { Services } from '../../contract/services/services.ts';
import { ServicesSocket, type ServicesSocketOptions } from './services-socket.ts';

const answerOf = (head: object, body = ''): ServiceFrame => ({ head: Buffer.from(JSON.stringify(head)), body: Buffer.from(body) });

async function open(ask: ServicesSocketOptions['ask'], below = ''): Promise<ServicesSocket> {
  const root = await mkdtemp(path.join(tmpdir(), 'socket-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const socket = await ServicesSocket.open({ folder: path.join(root, below, 'services-1'), ask, log: pino({ level: 'silent' }) });
  onTestFinished(() => socket.close());
  return socket;
}

describe("the services' socket", () => {
  it('forwards requests and answers, even if the path of its private folder is long', async () => {
    for (const below of ['', path.join('x'.repeat(120), 'y'.repeat(120))]) {
      const { folder } = await open(
        async (service, body) => answerOf({ answer: { service, asked: JSON.parse(Buffer.from(body).toString()) } }, 'bytes'),
        below,
      );
      expect((await stat(folder)).mode & 0o777).toBe(0o700);
      const services = new Services(folder);
      const replies = await Promise.all([1, 2, 3].map((number) => services.ask('count', { number })));
      expect(replies.map(({ answer }) => answer)).toEqual([1, 2, 3].map((number) => ({ service: 'count', asked: { number } })));
      expect(replies[0]?.body.toString()).toBe('bytes');
    }
  });

  it('keeps a request open until an answer is available', async () => {
    let asked = 0;
    const { folder } = await open(async () => (++asked < 3 ? null : answerOf({ answer: 'at last' })));
    expect((await new Services(folder).ask('count', null)).answer).toBe('at last');
    expect(asked).toBe(3);
  });

  it('returns rejections as errors', async () => {
    const { folder } = await open(async () => answerOf({ error: { code: 'DATA_INVALID', message: 'no', hint: 'try less' } }));
    await expect(new Services(folder).ask('count', null)).rejects.toMatchObject({ code: 'DATA_INVALID', message: 'no', hint: 'try less' });
    await expect(new Services(folder).ask('count', 'x'.repeat(1_000_000))).rejects.toMatchObject({ code: 'DATA_INVALID' });
  });

  it('aborts a request when its program no longer waits', async () => {
    const steps: string[] = [];
    const { folder } = await open(async (_service, _body, signal) => {
      steps.push('asked');
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      steps.push('gone');
      return null;
    });
    const stop = new AbortController();
    const asking = new Services(folder).ask('count', null, stop.signal);
    await expect.poll(() => steps).toEqual(['asked']);
    stop.abort(new Error('enough'));
    await expect(asking).rejects.toThrow('enough');
    await expect.poll(() => steps).toEqual(['asked', 'gone']);
  });

  it('closes connections that send malformed or oversized requests', async () => {
    const { folder } = await open(async () => answerOf({ answer: 1 }));
    for (const bytes of [
      Buffer.alloc(8, 0xff),
      encodeFrame({ head: Buffer.from('{}'), body: Buffer.alloc(0) }),
      encodeFrame(answerOf([])),
    ]) {
      const place = socketPath(folder);
      const socket = connect(place.path);
      onTestFinished(() => {
        socket.destroy();
        place.release();
      });
      const answer = readFrame(socket, ANSWER_LIMITS);
      socket.write(bytes);
      await expect(answer).rejects.toThrow(/ended within/);
    }
  });
});
