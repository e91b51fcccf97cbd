import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AuthToLocal, shortName } from './auth-to-local.ts';

const name = (principal: string, rules: string, options: Partial<AuthToLocal> = {}): string =>
  shortName(principal, { rules, mechanism: 'hadoop', defaultRealm: 'REALM.TLD', ...options });

const DAEMONS = `
  RULE:[2:$1/$2@$0]([ndj]n/.*@REALM.TLD)s/.*/hdfs/
  RULE:[2:$1/$2@$0]([rn]m/.*@REALM.TLD)s/.*/yarn/
  RULE:[2:$1/$2@$0](jhs/.*@REALM.TLD)s/.*/mapred/
  DEFAULT
`;
const FORMATS = String.raw`
  RULE:[1:$1@$0](.*@YAHOO\.COM)s/@.*//
  RULE:[2:$1](johndoe)s/^.*$/guest/
  RULE:[2:$1;$2](^.*;admin$)s/;admin$//
  RULE:[2:$2](root)
  DEFAULT
`;

const LOWER_CASE = 'RULE:[1:$1]/L\nRULE:[2:$1;$2](^.*;admin$)s/;admin$///L\nRULE:[2:$1]/L\nDEFAULT';

/** All expected names in this file come from Hadoop 3.4.3's KerberosName class. */
test.each([
  ['nn/host.a@REALM.TLD', DAEMONS, 'hdfs'],
  ['dn/host.a@REALM.TLD', DAEMONS, 'hdfs'],
  ['rm/host.a@REALM.TLD', DAEMONS, 'yarn'],
  ['jhs/host.a@REALM.TLD', DAEMONS, 'mapred'],
  ['alice@REALM.TLD', DAEMONS, 'alice'],
  ['alice/admin@REALM.TLD', DAEMONS, 'alice'],
  ['omalley@YAHOO.COM', FORMATS, 'omalley'],
  ['johndoe/zoo@FOO.COM', FORMATS, 'guest'],
  ['joe/admin@FOO.COM', FORMATS, 'joe'],
  ['joe/root@FOO.COM', FORMATS, 'root'],
  ['hdfs/10.0.0.1@REALM.TLD', FORMATS, 'hdfs'],
  ['Joe@FOO.COM', LOWER_CASE, 'joe'],
  ['Joe/root@FOO.COM', LOWER_CASE, 'joe'],
  ['Joe/admin@FOO.COM', LOWER_CASE, 'joe'],
  ['Alice@CORP.COM', 'RULE:[1:$1@$0](.*@CORP.COM)s/@.*///L', 'alice'],
  ['Bob@REALM.TLD', 'DEFAULT/L', 'Bob'],
  ['A-b@X', 'RULE:[1:$1](A-b)L', 'a-b'],
  ['A-b@X', 'RULE:[1:$1]s/-/_/L', 'a_b'],
  ['A-b@X', 'RULE:[1:$1](A-b)s/-/_/ RULE:[1:x]', 'A_b'],
  ['A@X', 'RULE:[1:$1]DEFAULT', 'A'],
  ['a-b-c@X', 'RULE:[1:$1]s/-/_/g', 'a_b_c'],
  ['a-b-c@X', 'RULE:[1:$1]s/-/_/', 'a_b-c'],
  ['a-b-c@X', 'RULE:[1:$1]s/-/_/gL', 'a_b_c'],
  ['alice@X', 'RULE:[1:a$1b]', 'aaliceb'],
  ['alice@X', 'RULE:[1:$1@$0](.*@X)s/(.*)@.*/u_$1/', 'u_alice'],
  ['alice@X', 'RULE:[1:$1]s/li/$0$0/', 'alilice'],
  ['alice@X', 'RULE:[1:$1]s/(li)/$12/', 'ali2ce'],
  ['alice@X', String.raw`RULE:[1:$1]s/li/\$1/`, 'a$1ce'],
  ['ALICE@X', 'RULE:[1:$1@$0](.*@X)s/(?i)alice.*/a/', 'a'],
  ['HTTP/abc.com', 'RULE:[2:$1]', 'HTTP'],
  ['plain', 'DEFAULT', 'plain'],
])('%s by %s', (principal, rules, expected) => {
  expect(name(principal, rules)).toBe(expected);
});

describe('principals without a rule', () => {
  test('a principal without a rule is rejected with the name of the setting', () => {
    expect(() => name('alice@OTHER', 'DEFAULT')).toThrow(expect.objectContaining({ code: 'KERBEROS_REALM_DENIED' }));
    expect(() => name('joe/x@FOO.COM', 'RULE:[1:$1]')).toThrow(/auth_to_local has no rule for the principal joe\/x@FOO\.COM/);
  });

  test('a principal without a rule stays unchanged with mechanism mit', () => {
    expect(name('alice@OTHER', 'DEFAULT', { mechanism: 'mit' })).toBe('alice@OTHER');
    expect(name('root/joe@FOO.COM', FORMATS.replace('root', 'none'), { mechanism: 'mit' })).toBe('root/joe@FOO.COM');
  });

  test('accepts no realm if the default realm is unknown', () => {
    expect(() => name('alice@OTHER', 'DEFAULT', { defaultRealm: null })).toThrow(
      expect.objectContaining({ code: 'KERBEROS_REALM_DENIED' }),
    );
  });
});

test('a result with a slash or an at sign is not a user name', () => {
  expect(() => name('a/b@X', 'RULE:[2:$1/$2]')).toThrow(expect.objectContaining({ code: 'KERBEROS_REALM_DENIED' }));
  expect(() => name('a@X', 'RULE:[1:$1@$0]s/@X/@Y/')).toThrow(expect.objectContaining({ code: 'KERBEROS_REALM_DENIED' }));
  expect(name('A/b@X', 'RULE:[2:$1/$2]', { mechanism: 'mit' })).toBe('A/b');
  expect(name('A/b@X', 'RULE:[2:$1/$2]/L', { mechanism: 'mit' })).toBe('a/b');
});

test.each(['owen/owen/owen@FOO.COM', 'owen@foo/bar.com'])('%s is not a principal', (principal) => {
  expect(() => name(principal, 'DEFAULT')).toThrow(expect.objectContaining({ code: 'KERBEROS_REALM_DENIED' }));
});

test.each([
  'RULE:[1:$1',
  'RULE:[1:$1](a',
  'RULE:[:$1]',
  'RULE:[1:$2]',
  'RULE:[1:$]',
  'RULE:[1:$10]',
  'RULE:[1:$1]s/(a)/$2/',
  'RULE:[1:$1]s/a/$&/',
  'rule:[1:$1]',
  'DEFALT',
  'RULE:[1:$1](()',
])('rejects the invalid rule %s', (rules) => {
  expect(() => name('alice@REALM.TLD', rules)).toThrow(expect.objectContaining({ code: 'HADOOP_CONF_INVALID' }));
});

test('rejects patterns that JavaScript interprets differently from Java', () => {
  for (const rule of [String.raw`RULE:[1:$1](\p{Lower}+)`, 'RULE:[1:$1]([a-z&&[^b]]+)', String.raw`RULE:[1:$1](\w++)`]) {
    expect(() => name('alice@REALM.TLD', rule)).toThrow(/only Java supports/);
  }
});

test('DEFAULT returns the first component of every principal of the default realm', () => {
  const part = fc.stringMatching(/^[a-z][a-z0-9._-]{0,12}$/);
  fc.assert(
    fc.property(part, fc.option(part), (user, host) => {
      expect(name(host === null ? `${user}@REALM.TLD` : `${user}/${host}@REALM.TLD`, 'DEFAULT')).toBe(user);
    }),
  );
});
