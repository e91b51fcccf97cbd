import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DEFAULT_SITE } from '../../conf/resolve/site.ts';
import { TonyError } from '../../platform/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { checkSiteFolder, loadSite, siteFolders, storageProperties } from './cluster.ts';

const DAY_MS = 86_400_000;
let folder: string;
let own: string;
let hadoop: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'site-'));
  own = join(folder, 'own');
  hadoop = join(folder, 'hadoop');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function holding(files: Readonly<Record<string, string>>): Storage {
  const storage = new FileStorage();
  storage.read = async (uri) => {
    const text = files[uri];
    if (text === undefined) {
      throw new TonyError('NOT_FOUND', uri);
    }
    return Buffer.from(text);
  };
  return storage;
}

function put(where: string, text: string): void {
  mkdirSync(where, { recursive: true });
  writeFileSync(join(where, 'tony-site.yaml'), text);
}

test('loadSite reads the first site file that exists', async () => {
  const storage = holding({ 'hdfs://nn:8020/apps/tony-ts/site.yaml': 'history: {keep: 3d}' });
  const places = { folders: [own, hadoop], storage, defaultFs: 'hdfs://nn:8020' };
  expect((await loadSite(places)).history.keepMs).toBe(3 * DAY_MS);
  put(hadoop, 'history: {keep: 2d}');
  expect((await loadSite(places)).history.keepMs).toBe(2 * DAY_MS);
  put(own, 'history: {keep: 1d}');
  expect((await loadSite(places)).history.keepMs).toBe(DAY_MS);
});

test('loadSite returns the defaults without a site file', async () => {
  expect(await loadSite({ folders: [own], storage: holding({}), defaultFs: 'hdfs://nn:8020' })).toEqual(DEFAULT_SITE);
  expect(await loadSite({ folders: [], storage: holding({}), defaultFs: 'file:///' })).toEqual(DEFAULT_SITE);
});

test('error messages name the site file', async () => {
  put(own, 'quota: {}');
  const loading = loadSite({ folders: [own], storage: holding({}), defaultFs: 'hdfs://nn' });
  await expect(loading).rejects.toThrow(`${join(own, 'tony-site.yaml')}:1:1  quota: is not a known key; did you mean \`quotas\`?`);
  mkdirSync(join(hadoop, 'tony-site.yaml'), { recursive: true });
  await expect(loadSite({ folders: [hadoop], storage: holding({}), defaultFs: 'hdfs://nn' })).rejects.toMatchObject({
    code: 'SITE_UNREADABLE',
  });
});

test('siteFolders ignores HADOOP_CONF_DIR if the cluster is given by its address', () => {
  const environment = { TONY_CONF_DIR: '/t', HADOOP_CONF_DIR: '/h' };
  expect(siteFolders(environment, false)).toEqual(['/t', '/h']);
  expect(siteFolders(environment, true)).toEqual(['/t']);
  expect(siteFolders({ HADOOP_HOME: '/opt/hadoop' }, false)).toEqual(['/opt/hadoop/etc/hadoop']);
  expect(siteFolders({}, false)).toEqual([]);
});

test('the gateway and its credentials come from the first local site file', async () => {
  expect(await storageProperties([own, hadoop])).toEqual({});
  put(hadoop, 'storage: {gateway: "http://httpfs:14000"}');
  expect(await storageProperties([own, hadoop])).toEqual({ 'tony.storage.gateway': 'http://httpfs:14000' });
  put(own, 'storage: {gateway: {ns1: "https://knox/gateway/x"}, credentials: knox}');
  expect(await storageProperties([own, hadoop])).toEqual({
    'tony.storage.gateway.ns1': 'https://knox/gateway/x',
    'tony.storage.credentials': join(own, 'knox'),
  });
});

test('a TONY_CONF_DIR that does not exist is an error, because another site file would be used', async () => {
  await expect(checkSiteFolder({ TONY_CONF_DIR: '/nowhere/at/all' })).rejects.toMatchObject({ code: 'SITE_UNREADABLE' });
  await checkSiteFolder({ TONY_CONF_DIR: '/' });
  await checkSiteFolder({});
});
