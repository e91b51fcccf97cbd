import { expect, test } from 'vitest';
import { keytabNotes } from './keytab-note.ts';

const kerberos = { keytab: '/home/alice/alice.keytab', principal: null };

test('a job without a keytab, or with a private keytab, needs no note', () => {
  expect(keytabNotes({ kerberos: null }, null)).toEqual([]);
  expect(keytabNotes({ kerberos }, { isExposed: false })).toEqual([]);
});

test('a keytab that other users can read is reported', () => {
  expect(keytabNotes({ kerberos }, { isExposed: true })).toEqual([
    'Other users of this machine can read /home/alice/alice.keytab: run chmod 600 /home/alice/alice.keytab.',
  ]);
});

test('a keytab without Kerberos has no effect', () => {
  expect(keytabNotes({ kerberos }, null)).toEqual([expect.stringMatching(/^kerberos has no effect here/)]);
});
