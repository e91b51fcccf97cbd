import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { reportedJob } from '../conf/status/job-status.fixture.ts';
import { TonyError } from '../platform/errors.ts';
import { ask, jobView, serve } from './job-site.fixture.ts';

test('every resource is JSON, and HEAD returns the same headers as GET', async () => {
  const port = await serve();
  for (const path of ['job', 'configuration', 'events?after=3', 'usage', 'scalars']) {
    const answer = await ask(port, `/tony/api/v1/${path}`);
    expect(answer.status).toBe(200);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    const head = await ask(port, `/tony/api/v1/${path}`, { method: 'HEAD' });
    expect(head.body).toBe('');
    expect(head.headers['content-length']).toBe(answer.headers['content-length']);
  }
  expect(JSON.parse((await ask(port, '/tony/api/v1/job')).body)).toEqual({
    ...reportedJob(),
    createdAt: '1970-01-01T00:00:00.000Z',
    apiVersion: 'tony-ts/v1',
    kind: 'Job',
  });
  expect(JSON.parse((await ask(port, '/tony/api/v1/events?after=3&user.name=alice')).body)).toEqual({
    apiVersion: 'tony-ts/v1',
    kind: 'EventList',
    entries: [],
    next: 3,
  });
});

test.each([
  ['events?after=x', 400],
  ['events?after=-1', 400],
  ['usage?after=1e9', 400],
  ['log', 400],
  ['log?task=..%2F..&file=stderr', 400],
  ['log?task=worker:0&file=passwd', 400],
  ['log?task=worker:0&file=stdout&tail=all', 400],
  ['log?task=worker:0&file=stdout', 404],
  ['nothing', 404],
  ['constructor', 404],
  ['job/x', 404],
])('answers %s with %i', async (path, status) => {
  const answer = await ask(await serve(), `/tony/api/v1/${path}`);
  expect(answer.status).toBe(status);
  if (path !== 'job/x') {
    expect(JSON.parse(answer.body)).toEqual({
      apiVersion: 'tony-ts/v1',
      kind: 'Error',
      code: status === 400 ? 'USAGE' : 'NOT_FOUND',
      message: expect.stringMatching(/\.$/),
      hint: '',
      exitCode: 2,
      retryable: false,
    });
  }
});

test('limits the requested length of a log', async () => {
  const queries: unknown[] = [];
  const view = jobView({
    log: async (...words) => {
      queries.push(words);
      return { text: 'x', skipped: 0 };
    },
  });
  const port = await serve({ view });
  await ask(port, '/tony/api/v1/log?task=worker:0');
  await ask(port, '/tony/api/v1/log?task=master&file=tony.log&tail=999999999999');
  await ask(port, '/tony/api/v1/log?task=container_e17_1_0001_01_000002&file=stdout&tail=0');
  expect(queries).toEqual([
    ['worker:0', 'stderr', 65536],
    ['master', 'tony.log', 1 << 20],
    ['container_e17_1_0001_01_000002', 'stdout', 1],
  ]);
});

test('reports a storage error to the viewer, but hides the message of an internal error', async () => {
  const unreachable = new TonyError('HDFS_UNREACHABLE', 'the NameNode does not answer');
  const view = jobView({ scalars: () => Promise.reject(unreachable), configuration: () => Promise.reject(new Error('/secret/path')) });
  const port = await serve({ view });
  const scalars = await ask(port, '/tony/api/v1/scalars');
  expect(scalars.status).toBe(503);
  const { code, message } = unreachable;
  expect(JSON.parse(scalars.body)).toMatchObject({ kind: 'Error', code, message });
  const configuration = await ask(port, '/tony/api/v1/configuration');
  expect(configuration.status).toBe(500);
  expect(configuration.body).not.toContain('secret');
});

test('twenty viewers share one query of the job, and long responses are compressed', async () => {
  let calls = 0;
  let serialised = 0;
  const status = {
    ...reportedJob({ message: 'long '.repeat(2000) }),
    toJSON() {
      serialised++;
      return { ...this, toJSON: undefined };
    },
  };
  const view = jobView({
    status: async () => {
      calls++;
      return status;
    },
  });
  const port = await serve({ view });
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => ask(port, '/tony/api/v1/job', { headers: { 'accept-encoding': 'gzip' } })),
  );
  // There is more than one query only if the requests took longer than the time for which a response is shared.
  expect(calls).toBeLessThan(20);
  const askAgain = async (): Promise<number> => {
    await ask(port, '/tony/api/v1/job');
    return calls;
  };
  await expect.poll(askAgain, { interval: 300 }).toBeGreaterThan(1);
  expect(serialised).toBe(1);
  const [answer] = answers;
  expect(answer?.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  expect(JSON.parse(gunzipSync(answer?.bytes ?? '').toString()).message).toBe(status.message);
  expect((await ask(port, '/tony/api/v1/job', { headers: { 'accept-encoding': 'gzip;q=0' } })).headers['content-encoding']).toBeUndefined();
});
