import { expect, test } from 'vitest';
import { settingsVerdict } from './verdicts.ts';

const SOUND = {
  'yarn.resourcemanager.am.max-attempts': '4',
  'yarn.log-aggregation-enable': 'true',
  'yarn.log-aggregation.retain-seconds': '604800',
  'yarn.acl.enable': 'true',
  'yarn.admin.acl': 'yarn ops',
};
const verdict = (changed: Readonly<Record<string, string>>) =>
  settingsVerdict(new Map(Object.entries({ ...SOUND, ...changed })), 'https://rm:8090');

test('several attempts, log aggregation and enforced access lists are good', () => {
  expect(verdict({})).toEqual({
    state: 'ok',
    message:
      'a job gets 2 ApplicationMaster attempts (YARN allows at most 4); logs are aggregated on HDFS and kept for 7 d; access lists are enforced; administrators: yarn ops',
    hint: '',
  });
  expect(verdict({ 'yarn.log-aggregation.retain-seconds': '-1' })).toMatchObject({
    state: 'ok',
    message: expect.stringContaining('never removed'),
  });
  expect(verdict({ 'yarn.admin.acl': ' ' }).message).toMatch(/administrators: none$/);
});

test.each([
  ['yarn.resourcemanager.am.max-attempts', '1', /^a job gets 1 ApplicationMaster attempt \(YARN allows at most 1\); /],
  ['yarn.log-aggregation-enable', 'false', /logs are not aggregated on HDFS/],
  ['yarn.log-aggregation.retain-seconds', '3600', /kept for 1 h/],
  ['yarn.acl.enable', 'false', /access lists are off$/],
  ['yarn.admin.acl', '*', /every user is an administrator$/],
])('%s=%s is a warning, and the hint names the setting', (name, value, text) => {
  const found = verdict({ [name]: value });
  expect(found).toMatchObject({ state: 'warning', message: expect.stringMatching(text) });
  expect(found.hint).toMatch(new RegExp(`^Set ${name} to [^:]+: [^:]+\\.$`));
});

test('a proxy outside the ResourceManager cannot show pages under the policy STRICT', () => {
  const policy = (value: string) => ({ 'yarn.resourcemanager.application-https.policy': value });
  const strict = verdict({ ...policy('STRICT'), 'yarn.web-proxy.address': 'proxy:9099' });
  expect(strict).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(/the proxy proxy:9099, which runs outside the ResourceManager, cannot/),
  });
  expect(strict.hint).toMatch(/^Set yarn\.resourcemanager\.application-https\.policy to LENIENT/);
  expect(verdict({ ...policy('STRICT'), 'yarn.web-proxy.address': 'rm:8090' }).state).toBe('ok');
  expect(verdict({ ...policy('LENIENT'), 'yarn.web-proxy.address': 'proxy:9099' }).state).toBe('ok');
});
