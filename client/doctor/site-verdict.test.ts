import { expect, test } from 'vitest';
import { DEFAULT_SITE, parseSite } from '../../conf/resolve/site.ts';
import type { Entry } from '../../storage/storage.ts';
import { siteVerdict } from './verdicts.ts';

const SHARED = 'hdfs://nn/apps/tony-ts/site.yaml';
const MODES = { 'hdfs://nn/': 0o755, 'hdfs://nn/apps': 0o755, 'hdfs://nn/apps/tony-ts': 0o755, [SHARED]: 0o644 };

/** Checks a site file on a file system with these entries. */
function verdict(text: string | null, from: string, modes: Readonly<Record<string, number>> = MODES) {
  const stat = async (uri: string) => (modes[uri] === undefined ? null : ({ uri, permission: modes[uri] } as Entry));
  return siteVerdict(text === null ? DEFAULT_SITE : parseSite(text, from), { stat }, 'hdfs://nn');
}

const QUOTAS = 'quotas: {users: {alice: {job: {gpus: 1}}}}';

test('a site file that only the admin can change is good', async () => {
  expect(await verdict(QUOTAS, SHARED)).toEqual({ state: 'ok', message: SHARED, hint: '' });
  expect(await verdict(null, '', {})).toMatchObject({ state: 'ok', message: 'no site file: the defaults apply' });
  expect(await verdict(QUOTAS, SHARED, { ...MODES, 'hdfs://nn/apps': 0o1777 })).toMatchObject({ state: 'ok' });
});

test.each([
  [SHARED, 0o666],
  ['hdfs://nn/apps/tony-ts', 0o777],
  ['hdfs://nn/', 0o777],
])('a site file that every user can change because of the mode of %s gives a warning', async (uri, mode) => {
  expect(await verdict(null, '', { ...MODES, [uri]: mode })).toEqual({
    state: 'warning',
    message: `every user can change ${SHARED}, because ${uri === SHARED ? 'it' : uri} has mode ${mode.toString(8)}`,
    hint: `Run hdfs dfs -chmod o-w ${uri} as its owner. Until then, users can lift their own quotas.`,
  });
});

test('limits in a local file give a warning if HDFS has no site file, because ApplicationMasters do not know them', async () => {
  const { [SHARED]: _, ...withoutFile } = MODES;
  const local = '/etc/hadoop/conf/tony-site.yaml';
  expect(await verdict(`${QUOTAS}\nfinal: {timeout: 1h}`, local, withoutFile)).toEqual({
    state: 'warning',
    message: `${local}: only clients apply quotas and final, because ${SHARED} does not exist`,
    hint: `Copy the file to HDFS, where ApplicationMasters read it: hdfs dfs -put ${local} ${SHARED}`,
  });
  expect(await verdict(QUOTAS, local)).toMatchObject({ state: 'ok', message: local });
  expect(await verdict('tls: {ca: ca.pem}', local, withoutFile)).toMatchObject({ state: 'ok' });
});

test('keys that this version does not know are errors', async () => {
  expect(await verdict('notices: {}', SHARED)).toMatchObject({
    state: 'error',
    message: expect.stringContaining('notices: is not a known key'),
    hint: expect.stringContaining('Correct these keys.'),
  });
});

test('keys that take effect only on the users’ machines give a warning on HDFS', async () => {
  expect(await verdict('tls: {ca: ca.pem}', SHARED)).toMatchObject({
    state: 'warning',
    message: `${SHARED}: tls.ca has no effect there`,
    hint: expect.stringContaining('HADOOP_CONF_DIR'),
  });
});
