import { expect, test } from 'vitest';
import { settingsVerdict } from './settings-verdict.ts';

const SOUND = { 'yarn.resourcemanager.am.max-attempts': '2', 'yarn.log-aggregation-enable': 'true', 'yarn.acl.enable': 'true' };
const verdict = (changed: Readonly<Record<string, string>>) => settingsVerdict(new Map(Object.entries({ ...SOUND, ...changed })));

test('two attempts, log aggregation and enforced access lists are good', () => {
  expect(verdict({})).toEqual({
    state: 'good',
    text: 'an ApplicationMaster has 2 attempts; logs are aggregated on HDFS; access lists are enforced',
    remedy: '',
  });
});

test.each([
  ['yarn.resourcemanager.am.max-attempts', '1', /^an ApplicationMaster has 1 attempt; /],
  ['yarn.log-aggregation-enable', 'false', /logs are not aggregated on HDFS/],
  ['yarn.acl.enable', 'false', /access lists are off$/],
])('%s=%s is doubtful, and the remedy names the setting', (name, value, text) => {
  const found = verdict({ [name]: value });
  expect(found).toMatchObject({ state: 'doubtful', text: expect.stringMatching(text) });
  expect(found.remedy).toMatch(new RegExp(`^Set ${name} to [^:]+: [^:]+\\.$`));
});
