import { expect, test } from 'vitest';
import * as z from 'zod';
import { parseJob } from './resolve/load-job.ts';
import { parseSite } from './resolve/site.ts';
import type { JsonSchema } from './values/json-schema.ts';
import { YamlFile } from './yaml-file.ts';

test.each([
  ['env: { __proto__: x }', /job\.yaml:3:8 {2}`__proto__` cannot be a key/],
  ['roles: { worker: { env: { "__proto__": x } } }', /job\.yaml:3:27 {2}`__proto__` cannot be a key/],
])('a key that would be lost is a mistake: %s', (text, message) => {
  expect(() => parseJob(`name: j\ncommand: c\n${text}\n`, { file: 'job.yaml', folder: '/' })).toThrow(message);
});

const lines = (count: number, line: (at: number) => string) => Array.from({ length: count }, (_, at) => line(at)).join('\n');

function mistakesOf(run: () => unknown): string[] {
  try {
    run();
  } catch (error) {
    return (error as Error).message.split('\n');
  }
  return [];
}

const job =
  (rest: string, set: readonly string[] = []) =>
  () =>
    parseJob(`name: j\ncommand: c\n${rest}`, { file: 'job.yaml', folder: '/', set });
const site = (text: string) => () => parseSite(text, 'site');

test('a check reads the schema of the known keys once, and not if there are no mistakes', () => {
  let calls = 0;
  const schema = (): JsonSchema => {
    calls++;
    return { properties: { name: {}, queue: {} } };
  };
  const check = (text: string) => () =>
    new YamlFile(text, { file: 'a.yaml', what: 'file', code: 'JOB_INVALID', expected: 'a mapping', isText: () => false }).check(
      z.strictObject({ name: z.string() }),
      { schema },
    );
  expect(check('name: a')()).toEqual({ name: 'a' });
  expect(calls).toBe(0);
  const mistakes = mistakesOf(check(`name: a\n${lines(2000, (at) => `${at === 0 ? 'nome' : `k${at}`}: 1`)}`));
  expect(calls).toBe(1);
  expect(mistakes[1]).toBe('  a.yaml:2:1  nome: is not a known key; did you mean `name`? (known: name, queue)');
});

test.each([
  [50, 51, '  job.yaml:53:1  k49: is not a known key'],
  [51, 52, '  ... and 1 more'],
  [2000, 52, '  ... and 1950 more'],
])('of %i mistakes, an error lists the first 50', (count, length, last) => {
  const mistakes = mistakesOf(job(`roles: {worker: {}}\n${lines(count, (at) => `k${at}: 1`)}`));
  expect(mistakes[0]).toBe(`The job file has ${count} mistakes:`);
  expect(mistakes).toHaveLength(length);
  expect(mistakes.at(-1)).toContain(last);
});

/** Files with `count` mistakes, or with `count` things that a check must look up. */
const MANY: Readonly<Record<string, (count: number) => () => unknown>> = {
  'unknown keys': (count) => job(`roles: {worker: {}}\n${lines(count, (at) => `k${at}: 1`)}`),
  'roles with an unknown key': (count) => job(`roles:\n${lines(count, (at) => `  w${at}: {instanses: 1}`)}`),
  'roles with a wrong value': (count) => job(`roles:\n${lines(count, (at) => `  w${at}: {instances: x}`)}`),
  'values of the wrong type': (count) => job(`roles: {worker: {}}\nenv:\n${lines(count, (at) => `  A${at}: [1]`)}`),
  'duplicate keys': (count) =>
    job(`roles: {worker: {}}\nenv:\n${lines(count, (at) => `  A${at}: 1`)}\n${lines(count, (at) => `  A${at}: 1`)}`),
  aliases: (count) => job(`roles: {worker: {}}\nenv:\n${lines(count, (at) => `  A${at}: &a${at} 1\n  B${at}: *a${at}`)}`),
  'merge keys': (count) => job(`roles:\n  worker: &w {instances: 1}\n${lines(count, (at) => `  w${at}: {<<: *w}`)}`),
  'unknown keys in --set': (count) =>
    job(
      'roles: {worker: {}}',
      Array.from({ length: count }, (_, at) => `k${at}=1`),
    ),
  'unknown keys of the site file': (count) => site(lines(count, (at) => `k${at}: 1`)),
  'unknown keys in defaults': (count) => site(`defaults:\n${lines(count, (at) => `  k${at}: 1`)}`),
  'keys that only job.yaml can set': (count) => site(`final:\n  roles:\n${lines(count, (at) => `    w${at}: {kind: gang}`)}`),
  'unknown keys in quotas': (count) => site(`quotas:\n  users:\n${lines(count, (at) => `    u${at}: {jbo: {gpus: 1}}`)}`),
};

const LEAST_CPU_SECONDS = 0.05;

test.each(Object.keys(MANY))('the time of a check is proportional to the number of %s', (what) => {
  const once = (run: () => unknown): number => {
    // The system counts processor time in steps of some milliseconds, so one short run would measure nothing.
    const before = process.cpuUsage();
    let runs = 0;
    let used = 0;
    for (; used < LEAST_CPU_SECONDS; runs += 1) {
      mistakesOf(run);
      used = process.cpuUsage(before).user / 1e6;
    }
    return used / runs;
  };
  // A busy machine, the compiler and the garbage collector only add time.
  const seconds = (count: number): number => {
    const run = MANY[what]?.(count) ?? (() => undefined);
    return Math.min(once(run), once(run), once(run));
  };
  seconds(50);
  // With linear work, the factor is 16, and with quadratic work 256.
  expect(seconds(800)).toBeLessThan(64 * seconds(50));
});
