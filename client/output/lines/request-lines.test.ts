import { createServer } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { HttpClient } from '../../../hadoop/http/http-client.ts';
import { listening } from '../../../hadoop/testing/http-server.ts';
import { showRequests } from './request-lines.ts';

test('shows each request with its status, and of the query only the operation', async () => {
  const server = createServer((_, response) => void response.writeHead(404).end());
  onTestFinished(() => void server.close());
  const address = await listening(server);
  const lines: string[] = [];
  showRequests((line) => lines.push(line));
  const client = new HttpClient();
  onTestFinished(() => client.close());
  const get = (url: string) => client.fetch({ method: 'GET', url: new URL(url), idleTimeoutMs: 5000 }, { maximumBytes: 1000 });
  await get(`${address}/webhdfs/v1/user?op=LISTSTATUS&delegation=secret`);
  await get(`${address}/ws/v1/cluster/info?user.name=alice`);
  expect(lines.map((line) => line.replace(/\d+ ms$/, 'N ms'))).toEqual([
    `GET ${address}/webhdfs/v1/user?op=LISTSTATUS: HTTP 404 in N ms`,
    `GET ${address}/ws/v1/cluster/info: HTTP 404 in N ms`,
  ]);
});
