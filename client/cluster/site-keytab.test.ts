import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { withSiteKeytab } from './cluster.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-keytab-test-'));
  await writeFile(join(folder, 'tony-site.yaml'), 'kerberos: {principal: trainer@EXAMPLE.TEST, keytab: own.keytab}\n');
  await writeFile(join(folder, 'own.keytab'), '');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test('the site file names a keytab relative to itself', async () => {
  expect(await withSiteKeytab({ A: 'b' }, ['/nowhere', folder])).toEqual({
    A: 'b',
    TONY_PRINCIPAL: 'trainer@EXAMPLE.TEST',
    TONY_KEYTAB: join(folder, 'own.keytab'),
  });
});

test.each([{ TONY_KEYTAB: 'mine', TONY_PRINCIPAL: 'me' }, { HADOOP_TOKEN_FILE_LOCATION: 'tokens' }])(
  '%j takes precedence',
  async (environment) => {
    expect(await withSiteKeytab(environment, [folder])).toBe(environment);
  },
);

test('only the first site file counts, even if it names no keytab', async () => {
  const first = join(folder, 'first');
  await mkdir(first);
  await writeFile(join(first, 'tony-site.yaml'), 'tls: {}\n');
  expect(await withSiteKeytab({}, [first, folder])).toEqual({});
});

test('a keytab that the user cannot read is an error, not a reason to use another login', async () => {
  await rm(join(folder, 'own.keytab'));
  await expect(withSiteKeytab({}, [folder])).rejects.toMatchObject({
    code: 'KERBEROS_TICKET_NOT_FOUND',
    message: expect.stringMatching(/own\.keytab, named in .*tony-site\.yaml, cannot be read: /),
  });
});
