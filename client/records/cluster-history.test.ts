import { createServer, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { parseSite } from '../../conf/resolve/site.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { SimpleLogin } from '../../hadoop/security/login.ts';
import { listening } from '../../hadoop/testing/http-server.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { ClusterHistory } from './cluster-history.ts';
import type { JobPlace } from './job-place.ts';

const ID = 'application_1795225023264_0001';
const MASTER = 'container_1795225023264_0001_01_000001';

const asked: string[] = [];

async function open(storage: Storage = new FileStorage(), siteText = '{}'): Promise<ClusterHistory> {
  const app = {
    id: ID,
    user: 'alice',
    name: 'merger-model',
    queue: 'secret',
    applicationType: 'TONY',
    state: 'FAILED',
    finalStatus: 'FAILED',
    diagnostics: 'private diagnostics',
    startedTime: 1,
    finishedTime: 2,
  };
  const answers: Readonly<Record<string, unknown>> = {
    [`/ws/v1/cluster/apps/${ID}`]: { app },
    [`/ws/v1/cluster/apps/${ID}/appattempts`]: {
      appAttempts: { appAttempt: [{ id: 1, appAttemptId: 'appattempt_1', containerId: MASTER }] },
    },
    '/ws/v1/cluster/apps': { apps: { app: [app] } },
  };
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? '';
    asked.push(path);
    json(response, answers[path]);
  });
  const address = await listening(server);
  const configuration = HadoopConfiguration.fromProperties({
    'fs.defaultFS': 'hdfs://127.0.0.1:1',
    'yarn.resourcemanager.webapp.address': new URL(address).host,
  });
  const site = parseSite(siteText, 'tony-site.yaml');
  const cluster: HadoopCluster = {
    configuration,
    environment: {},
    user: 'history',
    login: new SimpleLogin('history'),
    storage,
    s3: s3Finder({ environment: {}, hadoop: null }),
    home: 'file:///home',
    root: 'file:///home/staging',
    site: async () => site,
    keepingSite: async () => site,
    close: () => storage.close(),
  };
  const store = await ClusterHistory.open(cluster);
  onTestFinished(() => {
    store.close();
    server.closeAllConnections();
    server.close();
  });
  return store;
}

function json(response: ServerResponse, body: unknown): void {
  response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body ?? {}));
}

const place = (user: string, jobId = ID): JobPlace => ({
  user,
  jobId,
  folder: `hdfs://nn/tony/history/${user}/${jobId}`,
});

test.each([1, 5])(
  "answers() returns YARN's answer only for histories of the application's owner; %i histories requested",
  async (count) => {
    const store = await open();
    const others = Array.from({ length: count - 1 }, (_, at) => place('bob', `application_1795225023264_100${at}`));
    const mallory = await store.answers([place('mallory'), ...others]);
    expect(mallory.get(place('mallory').folder)).toBe('forgotten');
    expect(JSON.stringify([...mallory])).not.toMatch(/merger-model|secret|private/);
    const both = await store.answers([place('mallory'), place('alice'), ...others]);
    expect(both.get(place('mallory').folder)).toBe('forgotten');
    expect(both.get(place('alice').folder)).toMatchObject({ name: 'merger-model', queue: 'secret', result: { state: 'failed' } });
  },
);

test("masters() does not return containers of another user's application", async () => {
  const store = await open();
  expect(await store.masters(place('mallory'), [])).toEqual([]);
  expect(await store.masters(place('alice'), [])).toEqual([MASTER]);
});

test('repeated lists cost one request to the ResourceManager for all applications', async () => {
  const store = await open();
  const places = Array.from({ length: 5 }, (_, at) => place('bob', `application_1795225023264_100${at}`));
  asked.length = 0;
  for (let time = 0; time < 3; time++) {
    await store.answers([...places, place('alice')]);
  }
  expect(asked).toEqual(['/ws/v1/cluster/apps']);
});

test('a list reads a bounded number of folders and reports that there are more', async () => {
  const names: Readonly<Record<string, (at: number) => string>> = {
    history: (at) => `u${String(at).padStart(7, '0')}`,
    mallory: (at) => `application_1_${String(at).padStart(7, '0')}`,
  };
  const asked: (number | undefined)[] = [];
  const storage = new FileStorage();
  storage.list = async (uri, { most } = {}) => {
    asked.push(most);
    const folder = uri.split('/').at(-1) ?? '';
    return Array.from({ length: Math.min(most ?? 1_000_000, 1_000_000) }, (_, at): Entry => {
      const name = names[folder]?.(at) ?? '';
      return {
        uri: `${uri}/${name}`,
        name,
        type: 'folder',
        size: 0,
        modifiedAt: 0,
        permission: 0o755,
        owner: folder === 'history' ? name : folder,
      };
    });
  };
  storage.stat = async (uri) => ({ owner: uri.split('/').at(-1) }) as Entry;
  const store = await open(storage, 'history: { dir: /tony/history }');
  const users = await store.users();
  expect(users.found).toHaveLength(50_001);
  expect(users.message).toMatch(/^Users may be missing: .*history has more than 50000 entries\.$/);
  const places = await store.places('mallory');
  expect(places.found).toHaveLength(20_000);
  expect(places.message).toMatch(/newest histories may be missing: .*mallory has more than 20000 entries\.$/);
  expect(asked).toEqual([50_000, 20_000]);
});
