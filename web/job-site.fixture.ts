import { once } from 'node:events';
import { createServer, request as httpRequest, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { reportedJob } from '../conf/status/job-status.fixture.ts';
import type { TensorBoardStatus } from '../conf/status/status.ts';
import { JobSite } from './job-site.ts';
import type { JobView } from './job-view.ts';
import type { TensorBoardTarget } from './proxy/tensorboard-target.ts';
import type { Access } from './server/access.ts';
import { WebServer } from './server/server.ts';

/** The target for a job without TensorBoard. The site then serves the job's own page at the root. */
export const NO_TENSORBOARD: TensorBoardTarget = { status: () => ({ state: 'off', message: '' }), connect: null };

// Serves a job's pages on their own port for tests, and sends requests that well-behaved clients would not send.

export const SILENT = pino({ level: 'silent' });

export function jobView(change: Partial<JobView> = {}): JobView {
  return {
    status: async () => reportedJob(),
    configuration: async () => ({ name: 'mnist' }),
    events: async (after) => ({ entries: [], next: after }),
    usage: async (after) => ({ samples: [], next: after }),
    scalars: async () => ({ runs: [], message: '' }),
    log: async () => null,
    ...change,
  };
}

export async function serve(options: { view?: JobView; tensorboard?: TensorBoardTarget; access?: Access } = {}): Promise<number> {
  const { view = jobView(), tensorboard = NO_TENSORBOARD, access = { kind: 'authorised' } } = options;
  const site = new JobSite({ view, tensorboard, access, log: SILENT });
  const web = await WebServer.open({ address: '127.0.0.1', site, log: SILENT });
  onTestFinished(() => {
    web.close();
    site.close();
  });
  return web.port;
}

export async function upstream(listener: RequestListener, state: TensorBoardStatus['state'] = 'ready'): Promise<TensorBoardTarget> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { status: () => ({ state, message: '' }), connect: () => connect(port, '127.0.0.1') };
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
  readonly body: string;
}

export function ask(
  port: number,
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  const { method = 'GET', headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ host: '127.0.0.1', port, path, method, headers, agent: false }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('error', reject);
      incoming.on('end', () => {
        const bytes = Buffer.concat(chunks);
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, bytes, body: bytes.toString() });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}
