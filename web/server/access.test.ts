import { describe, expect, test } from 'vitest';
import { ask, serve } from '../job-site.fixture.ts';
import type { Access } from './access.ts';

const JOB = '/tony/api/v1/job';

describe('a server with a token', () => {
  const access: Access = { kind: 'token', token: 'correct-horse', hosts: ['gpu.example'] };

  test.each([
    {},
    { authorization: 'Bearer correct-horsf' },
    { authorization: 'Bearer x' },
    { authorization: 'correct-horse' },
    { cookie: 'tony=correct-horse' },
  ])('rejects a request with the headers %j', async (headers) => {
    const answer = await ask(await serve({ access }), JOB, { headers: headers as Record<string, string> });
    expect(answer.status).toBe(403);
    expect(answer.body).toMatch(/token/);
  });

  test('accepts a bearer token and the cookie that the printed URL sets', async () => {
    const port = await serve({ access });
    expect((await ask(port, JOB, { headers: { authorization: 'Bearer correct-horse' } })).status).toBe(200);
    const entered = await ask(port, '/tony/x:y?a=1&token=correct-horse&b=2');
    expect(entered.status).toBe(303);
    expect(entered.headers.location).toBe('./x:y?a=1&b=2');
    const [cookie = ''] = (entered.headers['set-cookie'] as string[] | undefined) ?? [];
    expect(cookie).toMatch(/^tony-[0-9a-f]{12}=correct-horse; Path=\/; HttpOnly; SameSite=Strict$/);
    expect((await ask(port, JOB, { headers: { cookie: `other=1; ${cookie.split(';')[0]}` } })).status).toBe(200);
    expect((await ask(port, '/?token=wrong')).status).toBe(403);
  });

  test('answers a link from another site with a page that redirects, because an HTTP redirect would lose the cookie', async () => {
    const page = await ask(await serve({ access }), '/tony/?token=correct-horse&x=%22&y=\'"', {
      headers: { 'sec-fetch-site': 'cross-site' },
    });
    expect(page.status).toBe(200);
    expect(page.body).toContain('url=./?x=%22&#38;y=&#39;&#34;"');
    expect(page.headers['set-cookie']).toHaveLength(1);
  });

  test.each([
    ['evil.example', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.evil.example:80', 403],
    ['localhost:1', 200],
    ['127.0.0.1', 200],
    ['[::1]:8080', 200],
    ['GPU.example:5', 200],
  ])('answers a request for host %j with %i', async (host, status) => {
    const headers = { host, authorization: 'Bearer correct-horse' };
    expect((await ask(await serve({ access }), JOB, { headers })).status).toBe(status);
  });
});

describe('a server behind the YARN proxy', () => {
  test('accepts requests from the proxy hosts only', async () => {
    const port = await serve({ access: { kind: 'proxy', hosts: ['127.0.0.2'], mayView: () => true } });
    const answer = await ask(port, JOB, { headers: { cookie: 'proxy-user=alice' } });
    expect(answer.status).toBe(403);
    expect(answer.body).toMatch(/through the ResourceManager/);
  });

  test('checks whether the user that the proxy names may view the job', async () => {
    const mayView = (user: string | null): boolean => user === 'alice';
    // DNS labels have at most 63 characters, so no name server is queried for this name.
    const unknown = `${'a'.repeat(64)}.invalid`;
    const port = await serve({ access: { kind: 'proxy', hosts: ['localhost', unknown], mayView } });
    expect((await ask(port, JOB, { headers: { cookie: 'a=b; proxy-user=alice' } })).status).toBe(200);
    expect((await ask(port, JOB, { headers: { cookie: 'proxy-user=bob' } })).body).toMatch(/User bob may not view this job/);
    expect((await ask(port, JOB)).status).toBe(403);
  });
});
