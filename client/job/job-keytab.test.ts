import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { readJobKeytab } from './job-keytab.ts';

/** Scripts stand in for klist and kinit here; integration-tests/own-cluster/long-jobs.test.ts runs the real programs. */
const KLIST = `#!/bin/sh
[ "$KRB5CCNAME" = FILE:/cache ] || [ -e "\${KRB5CCNAME#FILE:}" ] || { echo 'klist: No credentials cache found' >&2; exit 1; }
printf 'Ticket cache: %s\\nDefault principal: alice@EXAMPLE.TEST\\n\\n' "$KRB5CCNAME"
printf '01/01/26 00:00:00  01/01/60 00:00:00  krbtgt/EXAMPLE.TEST@EXAMPLE.TEST\\n'
`;
/** Creates the ticket cache, except for the principal `other`, whose keys are not in the keytab. */
const KINIT = `#!/bin/sh
case "$*" in *other@*) echo "kinit: Keytab contains no suitable keys for other@EXAMPLE.TEST" >&2; exit 1;; esac
while [ "$1" != -c ]; do shift; done
touch "\${2#FILE:}"
`;

let folder: string;
let environment: NodeJS.ProcessEnv;
const secure = HadoopConfiguration.fromProperties({
  'hadoop.security.authentication': 'kerberos',
  'hadoop.security.auth_to_local': 'RULE:[1:$1]',
});
const cluster = { configuration: secure, user: 'alice' };

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-job-keytab-'));
  environment = { PATH: `${folder}:/usr/bin:/bin`, KRB5_CONFIG: '/nowhere', KRB5CCNAME: 'FILE:/cache' };
  for (const [name, text] of Object.entries({ klist: KLIST, kinit: KINIT })) {
    await writeFile(path.join(folder, name), text);
    await chmod(path.join(folder, name), 0o755);
  }
  await writeFile(path.join(folder, 'alice.keytab'), Buffer.from([5, 2, 1]), { mode: 0o600 });
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

const keytab = (principal: string | null, name = 'alice.keytab') => ({ keytab: path.join(folder, name), principal });

test('reads the keytab, tries it, and leaves no tickets behind', async () => {
  vi.stubEnv('TMPDIR', folder);
  const before = await readdir(folder);
  const found = await readJobKeytab(keytab('alice@EXAMPLE.TEST'), { ...cluster, environment });
  expect(found).toMatchObject({ principal: 'alice@EXAMPLE.TEST', isExposed: false });
  expect(found?.content.reveal()).toEqual(new Uint8Array([5, 2, 1]));
  expect(await readdir(folder)).toEqual(before);
});

test('the default principal is the principal of the ticket', async () => {
  expect(await readJobKeytab(keytab(null), { ...cluster, environment })).toMatchObject({ principal: 'alice@EXAMPLE.TEST' });
});

test('reports a keytab that other users can read', async () => {
  await chmod(path.join(folder, 'alice.keytab'), 0o640);
  expect(await readJobKeytab(keytab(null), { ...cluster, environment })).toMatchObject({ isExposed: true });
});

test('returns null on a cluster without Kerberos, and for a job without a keytab', async () => {
  const simple = { configuration: HadoopConfiguration.fromProperties({}), user: 'alice' };
  expect(await readJobKeytab(keytab(null, 'missing'), { ...simple, environment })).toBeNull();
  expect(await readJobKeytab(null, { ...cluster, environment })).toBeNull();
});

test('rejects keytabs that cannot work, before anything is uploaded', async () => {
  const reading = (principal: string | null, name?: string) => readJobKeytab(keytab(principal, name), { ...cluster, environment });
  await expect(reading(null, 'missing')).rejects.toMatchObject({ code: 'KEYTAB_INVALID', message: expect.stringContaining('missing') });
  await expect(reading(null, 'kinit')).rejects.toMatchObject({
    code: 'KEYTAB_INVALID',
    message: expect.stringContaining('is not a keytab'),
  });
  await expect(reading('bob@EXAMPLE.TEST')).rejects.toMatchObject({
    code: 'KEYTAB_INVALID',
    message: 'The keytab is for bob@EXAMPLE.TEST, which the cluster maps to user bob, but alice submits the job.',
  });
  const other = { ...cluster, user: 'other' };
  await expect(readJobKeytab(keytab('other@EXAMPLE.TEST'), { ...other, environment })).rejects.toMatchObject({
    code: 'KERBEROS_TICKET_NOT_FOUND',
  });
});
