import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { currentKey, HadoopConfiguration } from './configuration.ts';

const ROOT = join(import.meta.dirname, '..', '..');

/** Returns the text of all source files in a folder, without tests. */
async function sources(folder: string): Promise<string> {
  const names = await readdir(join(ROOT, folder), { recursive: true });
  const files = names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.endsWith('deprecated-keys.ts'));
  return (await Promise.all(files.map((name) => readFile(join(ROOT, folder, name), 'utf8')))).join('\n');
}

/** The golden file is the output of Hadoop 3.4.3's Configuration.dumpDeprecatedKeys, with the keys of HDFS and YARN. */
test('every property that tony-ts reads can have the deprecated names that Hadoop accepts', async () => {
  const text = (await Promise.all(['hadoop', 'storage', 'conf', 'client', 'application-master'].map(sources))).join('\n');
  const dumped = (await readFile(join(ROOT, 'hadoop', 'golden', 'deprecated-keys.txt'), 'utf8')).split('\n').filter((line) => line !== '');
  const pairs = dumped.map((line) => line.trim().split(/[\t,]+/));
  const used = pairs.filter(([, ...names]) => names.some((name) => text.includes(`'${name}'`)));
  expect(used.map(([old = '']) => currentKey(old))).toEqual(used.map(([, name]) => name));
  expect(used.map(([old]) => old)).toEqual([
    'dfs.encryption.key.provider.uri',
    'dfs.federation.nameservices',
    'dfs.http.address',
    'dfs.https.address',
    'fs.default.name',
  ]);
});

const property = (name: string, value: string, more = ''): string =>
  `<property><name>${name}</name><value>${value}</value>${more}</property>`;

async function fromFiles(files: Readonly<Record<string, string>>): Promise<HadoopConfiguration> {
  const folder = await mkdtemp(join(tmpdir(), 'tony-ts-conf-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), `<configuration>${text}</configuration>`);
  }
  return HadoopConfiguration.fromDirectory(folder, {});
}

test('a deprecated name in a file sets the property with the current name', async () => {
  const configuration = await fromFiles({
    'core-site.xml': property('fs.default.name', 'hdfs://nn:9000'),
    'hdfs-site.xml': property('dfs.federation.nameservices', 'a,b') + property('dfs.http.address', '${fs.default.name}'),
  });
  expect(configuration.defaultFs).toBe('hdfs://nn:9000');
  expect(configuration.get('fs.default.name')).toBe('hdfs://nn:9000');
  expect(configuration.list('dfs.nameservices')).toEqual(['a', 'b']);
  expect(configuration.get('dfs.namenode.http-address')).toBe('hdfs://nn:9000');
  expect(configuration.freeze()).toMatchObject({ 'fs.defaultFS': 'hdfs://nn:9000', 'dfs.nameservices': 'a,b' });
});

test('both names denote one property: the last value wins, and a final value stays', async () => {
  const files = {
    'core-site.xml': property('fs.defaultFS', 'hdfs://first'),
    'hdfs-site.xml': property('fs.default.name', 'hdfs://second'),
  };
  expect((await fromFiles(files)).defaultFs).toBe('hdfs://second');
  const final = { ...files, 'core-site.xml': property('fs.default.name', 'hdfs://first', '<final>true</final>') };
  expect((await fromFiles({ ...final, 'hdfs-site.xml': property('fs.defaultFS', 'hdfs://second') })).defaultFs).toBe('hdfs://first');
});

test('the reported configuration of a daemon can contain deprecated names', () => {
  expect(HadoopConfiguration.fromProperties({ 'fs.default.name': 'hdfs://nn' }).defaultFs).toBe('hdfs://nn');
  expect(HadoopConfiguration.fromProperties({}).with({ 'fs.default.name': 'hdfs://nn' }).defaultFs).toBe('hdfs://nn');
});
