import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { toYaml } from './yaml.ts';

test('the YAML has the style of a hand-written file', () => {
  const job = {
    name: 'mnist',
    tags: [],
    roles: [{ name: 'worker', command: 'npm ci\nnode train.ts\n', gpus: 1 }],
    env: { A: '1', B: 'yes' },
  };
  expect(toYaml(job)).toBe(`name: mnist
tags: []
roles:
  - name: worker
    command: |
      npm ci
      node train.ts
    gpus: 1
env:
  A: "1"
  B: "yes"
`);
});

test.each([
  '',
  ' ',
  '-',
  '- a',
  'a: b',
  'a #b',
  '#a',
  '"',
  "'",
  '{',
  '[',
  '*a',
  '&a',
  '!a',
  '%a',
  '@a',
  '`a',
  '0x10',
  '1e3',
  '.5',
  '~',
  '<<',
  '=',
  'a\n',
  'a\n\n',
  '\na',
  ' a\nb',
  'a \nb',
  'a\n b',
  'a\tb',
  '\u0000',
  '2026-11-21',
  'hdfs://nn:8020/a',
  '--- a',
  '...',
  'a:',
  'A::',
  'a:\u0001',
  'a:\ud800',
  '?',
  'a, b]',
  'No',
])('a parser restores %j', (text) => {
  expect(parse(toYaml({ text, list: [text], [text]: 1 }))).toEqual({ text, list: [text], [text]: 1 });
});

test('a parser restores every text of three special characters, as a value and as a key', () => {
  const marks = [...'A0 :#-?,[{"\'&*!|>%@=~\\\n\t\r\0\x7f\x85\xa0é\u2028\ufeff', '\ud800'];
  const texts = marks.flatMap((a) => marks.flatMap((b) => marks.map((c) => `${a}${b}${c}`)));
  const values = texts.map((text) => ({ [text]: text }));
  expect(parse(toYaml(values))).toEqual(values);
});

test('a parser restores any JSON value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      // -0 is 0 in YAML's core schema, as in JSON.
      expect(JSON.stringify(parse(toYaml(value)))).toBe(JSON.stringify(value));
    }),
    { numRuns: 500 },
  );
});
