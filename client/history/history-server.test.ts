import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterAll, afterEach, expect, test } from 'vitest';
import { jobStatus } from '../../conf/status/job-status.fixture.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { fileUri } from '../../storage/uri.ts';
import type { HistoryList } from '../../web/history-list.ts';
import type { ScalarCharts } from '../../web/job-view.ts';
import { WebServer } from '../../web/server/server.ts';
import { type HistoryAccess, SimpleAccess, TokenAccess } from './history-access.ts';
import { HistoryServer } from './history-server.ts';
import { LocalHistory } from './local-history.ts';
import { TensorBoardPool } from './tensorboard-pool.ts';

const log = pino({ level: 'silent' });
const root = mkdtempSync(join(tmpdir(), 'tony-ts-history-'));
const [FIRST, SECOND] = ['local_1000_0001', 'local_2000_0001'];
const closers: (() => Promise<void> | void)[] = [];
let now = 1_000_000;

function leave(jobId: string, status: Partial<JobStatus>, files: Readonly<Record<string, string>> = {}): void {
  const folder = join(root, 'history', jobId);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'final.json'), JSON.stringify(jobStatus({ id: jobId, state: 'succeeded', finishedAt: 9, ...status })));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
  }
}

leave(
  FIRST,
  { name: 'first', summaryUri: fileUri(join(root, 'history', FIRST, 'summaries')) },
  { 'job.json': '{"env":{"API_TOKEN":"x"}}' },
);
leave(SECOND, { name: 'second', summaryUri: fileUri(join(root, 'elsewhere')) });

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) {
    await close();
  }
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function open(access: HistoryAccess, anywhere = false): Promise<{ url: string; woken: string[] }> {
  const woken: string[] = [];
  const tensorBoards = new TensorBoardPool({
    folder: root,
    log,
    start: async ({ summaryDir }) => {
      woken.push(summaryDir);
      throw new Error('There is no Python.');
    },
  });
  const history = new HistoryServer({ store: new LocalHistory(root, 'alice'), access, tensorBoards, anywhere, log });
  const web = await WebServer.open({ address: '127.0.0.1', site: history, log });
  closers.push(
    () => tensorBoards.close(),
    () => history.close(),
    () => web.close(),
  );
  return { url: `http://127.0.0.1:${web.port}/`, woken };
}

const everybody = (): SimpleAccess =>
  new SimpleAccess({
    viewers: async (place) => (user) => user === place.user || user === 'root',
    hosts: ['history.example'],
    now: () => now,
  });

/** Sends a browser's request for a page, with `cookie` and the host name in the address bar. */
function browse(
  url: string,
  { cookie = '', host = '127.0.0.1' } = {},
): Promise<{ status: number; headers: IncomingHttpHeaders; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { accept: 'text/html', host, ...(cookie !== '' && { cookie }) };
    get(url, { headers }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }), reject);
    }).on('error', reject);
  });
}

const cookieIn = (headers: IncomingHttpHeaders): string => headers['set-cookie']?.[0]?.split(';')[0] ?? '';

async function signedIn(url: string, name: string, cookie = ''): Promise<{ location: string | undefined; cookie: string }> {
  const form = await browse(`${url}?user.name=${name}`, { cookie });
  const secret = /name="sign-in" value="([\w-]+)"/.exec(form.body)?.[1] ?? '';
  const { headers } = await browse(`${url}?user.name=${name}&sign-in=${secret}&x=1`, { cookie: `${cookie}; ${cookieIn(form.headers)}` });
  return { location: headers.location, cookie: cookieIn(headers) };
}

test('token access serves every page with the token and rejects every other request', async () => {
  const { url } = await open(new TokenAccess('secret-token', []), true);
  for (const target of ['', 'tony/api/v1/history', `jobs/alice/${FIRST}/`, `jobs/alice/${FIRST}/tony/api/v1/job`]) {
    expect((await fetch(`${url}${target}`)).status).toBe(403);
    expect((await fetch(`${url}${target}`, { headers: { authorization: 'Bearer wrong' } })).status).toBe(403);
    expect((await fetch(`${url}${target}`, { headers: { authorization: 'Bearer secret-token' } })).status).toBe(200);
  }
  const entered = await fetch(`${url}jobs/alice/${FIRST}/tony/?token=secret-token`, { redirect: 'manual' });
  expect([entered.status, entered.headers.get('location')]).toEqual([303, './']);
  expect(entered.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Strict$/);
});

test('the list shows the newest job first, applies filters and rejects invalid filters', async () => {
  const { url } = await open(everybody());
  const list = async (query: string): Promise<HistoryList> =>
    (await (await fetch(`${url}tony/api/v1/history?user.name=alice&${query}`)).json()) as HistoryList;
  expect((await list('')).jobs.map(({ id, urls }) => [id, urls.pages])).toEqual([
    [SECOND, `jobs/alice/${SECOND}/tony/`],
    [FIRST, `jobs/alice/${FIRST}/tony/`],
  ]);
  expect((await list('name=FIR')).jobs).toHaveLength(1);
  expect((await list('state=failed')).jobs).toEqual([]);
  expect((await list('limit=1')).jobs).toHaveLength(1);
  expect((await list('user=bob')).jobs).toEqual([]);
  for (const wrong of ['limit=x', 'state=x', 'user=../..', 'user=', 'user=a%2fb', 'user=..']) {
    expect((await fetch(`${url}tony/api/v1/history?user.name=alice&${wrong}`)).status).toBe(400);
  }
});

test('answers 403 for a job that the user may not view, and for a job that does not exist', async () => {
  const { url } = await open(everybody());
  const answers = await Promise.all(
    [`jobs/alice/${FIRST}/`, 'jobs/alice/local_9_0001/', 'jobs/%ff/local_9_0001/', `jobs/..%2falice/${FIRST}/`].map((target) =>
      fetch(`${url}${target}?user.name=bob`),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
  expect((await fetch(`${url}jobs/alice/${FIRST}/tony/api/v1/job?user.name=root`)).status).toBe(200);
  expect((await fetch(`${url}tony/api/v1/history`, { method: 'POST', headers: { cookie: 'x=y' } })).status).toBe(401);
});

test('rejects invalid user names and forged or expired cookies', async () => {
  const { url } = await open(everybody());
  for (const name of ['', 'a b', '../x', 'a%0d%0ab', 'x'.repeat(200)]) {
    expect((await fetch(`${url}tony/api/v1/history?user.name=${name}`)).status).toBe(401);
  }
  const { location, cookie } = await signedIn(url, 'alice');
  expect(location).toBe('./?x=1');
  const get = async (value: string): Promise<number> => (await fetch(`${url}tony/api/v1/history`, { headers: { cookie: value } })).status;
  expect(await get(cookie)).toBe(200);
  expect(await get(`${cookie}x`)).toBe(401);
  expect(await get(cookie.replace(/\.\d+\./, '.99999999999999.'))).toBe(401);
  now += 13 * 3_600_000;
  expect(await get(cookie)).toBe(401);
});

test('a server for several users reads only summaries in the history folder', async () => {
  const { url, woken } = await open(everybody());
  const scalars = async (id: string): Promise<ScalarCharts> =>
    (await (await fetch(`${url}jobs/alice/${id}/tony/api/v1/scalars?user.name=alice`)).json()) as ScalarCharts;
  expect(await scalars(SECOND)).toMatchObject({ runs: [], message: expect.stringContaining('tony-ts tensorboard') });
  expect((await scalars(FIRST)).message).not.toContain('tony-ts tensorboard');
  await fetch(`${url}jobs/alice/${SECOND}/?user.name=alice`);
  expect(woken).toEqual([]);
});

test('opening a job with summaries starts TensorBoard, or shows why it cannot start', async () => {
  const { url, woken } = await open(everybody());
  const job = `${url}jobs/alice/${FIRST}`;
  const tensorboard = async () => ((await (await fetch(`${job}/tony/api/v1/job?user.name=alice`)).json()) as JobStatus).tensorboard;
  expect(await tensorboard()).toEqual({ state: 'waiting', message: 'TensorBoard starts when you open it.' });
  await fetch(`${job}/?user.name=alice`);
  await expect.poll(tensorboard).toEqual({ state: 'unavailable', message: 'The job has written no summaries.' });
  mkdirSync(join(root, 'history', FIRST, 'summaries', 'train'), { recursive: true });
  await fetch(`${job}/?user.name=alice`);
  expect(woken).toEqual([fileUri(join(root, 'history', FIRST, 'summaries'))]);
  await expect.poll(tensorboard).toEqual({ state: 'unavailable', message: 'There is no Python.' });
  const moved = await fetch(`${job}?user.name=alice`, { redirect: 'manual' });
  expect([moved.status, moved.headers.get('location')]).toEqual([308, `./${FIRST}/?user.name=alice`]);
});

test('the configuration contains no secrets', async () => {
  const { url } = await open(everybody());
  const get = (id: string) => fetch(`${url}jobs/alice/${id}/tony/api/v1/configuration?user.name=alice`);
  expect(await (await get(FIRST)).json()).toMatchObject({ kind: 'Configuration', configuration: { env: { API_TOKEN: '***' } } });
  expect(await (await get(SECOND)).json()).toMatchObject({
    kind: 'Error',
    code: 'NOT_FOUND',
    message: 'The job.json file of this job is missing or damaged.',
  });
});

test('a link fills in the sign-in form but cannot sign in as another user', async () => {
  const { url } = await open(everybody());
  const { cookie } = await signedIn(url, 'alice');
  const linked = await browse(`${url}?user.name=mallory&sign-in=guessed`, { cookie });
  expect([linked.status, linked.headers.location]).toEqual([401, undefined]);
  expect(linked.body).toContain('value="mallory"');
  expect(cookieIn(linked.headers)).toMatch(/^tony-history-form=/);
  expect((await browse(`${url}?user.name=alice`, { cookie })).status).toBe(200);
  // A page on another site can trigger such requests, for example by embedding images. The server must not sign the user in for them.
  const program = await fetch(`${url}tony/api/v1/history?user.name=mallory`, { headers: { cookie } });
  expect([program.status, program.headers.get('set-cookie')]).toEqual([200, null]);
});

test('rejects requests for another host name', async () => {
  const { url } = await open(everybody());
  for (const target of ['', 'tony/api/v1/history?user.name=alice', `jobs/alice/${FIRST}/tony/api/v1/job?user.name=alice`]) {
    const { status, body } = await browse(`${url}${target}`, { host: 'evil.example:80' });
    expect(status).toBe(403);
    expect(body).toContain('history.url');
  }
  for (const host of ['history.example', 'localhost:1', '127.0.0.1']) {
    expect((await browse(`${url}jobs/alice/${FIRST}/tony/api/v1/job`, { host })).status).toBe(401);
  }
});

test('answers 404 without a redirect for an invalid job ID', async () => {
  const { url } = await open(everybody());
  for (const id of ['https:evil.example', 'javascript:x', '..', 'application_1%0d%0ax', '%2f%2fevil.example']) {
    const answer = await fetch(`${url}jobs/x/${id}?user.name=alice`, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([404, null]);
  }
});
