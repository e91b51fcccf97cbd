import { request } from 'node:http';
import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { jobStatus } from '../conf/job-status.fixture.ts';
import type { Access } from './access.ts';
import { JobSite } from './job-site.ts';
import type { JobView } from './job-view.ts';
import { WebServer } from './server.ts';
import { NO_TENSORBOARD } from './tensorboard-target.ts';

const STATUS = jobStatus({ name: '<script>alert(1)</script>' });

const VIEW: JobView = {
  status: async () => STATUS,
  configuration: async () => ({}),
  events: async (after) => ({ entries: [], next: after }),
  usage: async (after) => ({ samples: [], next: after }),
  scalars: async () => ({ runs: [], message: '' }),
  log: async () => null,
};

let open: WebServer | null = null;
afterEach(() => {
  open?.close();
  open = null;
});

async function serve(access: Access): Promise<WebServer> {
  const log = pino({ level: 'silent' });
  const site = new JobSite({ view: VIEW, tensorboard: NO_TENSORBOARD, access, log });
  open = await WebServer.open({ address: '127.0.0.1', site, log });
  return open;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

function get(web: WebServer, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port: web.port, path, headers, method }, (incoming) => {
      let body = '';
      incoming.setEncoding('utf8');
      incoming.on('data', (piece: string) => {
        body += piece;
      });
      incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body }));
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

describe('with a token', () => {
  const access: Access = { kind: 'token', token: 'correct-horse' };

  test('shows the job to who has it, and to nobody else', async () => {
    const web = await serve(access);
    const allowed = await get(web, '/tony/api/job', { authorization: 'Bearer correct-horse' });
    expect(allowed.status).toBe(200);
    expect(JSON.parse(allowed.body)).toEqual(STATUS);
    for (const headers of [
      {},
      { authorization: 'Bearer correct-horsf' },
      { authorization: 'Bearer x' },
      { authorization: 'correct-horse' },
    ]) {
      expect((await get(web, '/tony/api/job', headers as Record<string, string>)).status).toBe(403);
    }
  });

  test('allows no scripts but its own, and takes GET and HEAD only', async () => {
    const web = await serve(access);
    const headers = { authorization: 'Bearer correct-horse' };
    const page = await get(web, '/', headers);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect((await get(web, '/', headers, 'HEAD')).body).toBe('');
    expect((await get(web, '/', headers, 'PUT')).status).toBe(405);
    expect((await get(web, '/../etc/passwd', headers)).status).toBe(400);
  });
});

describe('behind YARN', () => {
  test('answers proxies only', async () => {
    const web = await serve({ kind: 'proxy', hosts: ['127.0.0.2'], mayView: () => true });
    const answer = await get(web, '/tony/api/job', { cookie: 'proxy-user=alice' });
    expect(answer.status).toBe(403);
    expect(answer.body).toMatch(/through the ResourceManager/);
  });

  test('asks whether the user that the proxy names may look', async () => {
    const web = await serve({ kind: 'proxy', hosts: ['localhost', 'no-such-host.invalid'], mayView: (user) => user === 'alice' });
    expect((await get(web, '/', { cookie: 'a=b; proxy-user=alice' })).status).toBe(200);
    expect((await get(web, '/', { cookie: 'proxy-user=bob' })).body).toMatch(/User bob may not view this job/);
    expect((await get(web, '/')).status).toBe(403);
  });
});
