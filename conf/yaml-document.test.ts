import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TonyError } from '../platform/errors.ts';
import { jobJsonSchema } from './job-schema.ts';
import { isTextKey } from './job-values.ts';
import { parseJob } from './resolve/load-job.ts';
import { parseSite } from './resolve/site.ts';
import type { JsonSchema } from './values/json-schema.ts';

const parse = (text: string, set: readonly string[] = [], site: ReturnType<typeof parseSite> | null = null) =>
  parseJob(text, { file: 'job.yaml', folder: '/', set, site });
const job = (rest: string) => `name: a\ncommand: c\n${rest}\n`;

function message(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return error instanceof TonyError ? error.message : `${String(error)}`;
  }
  return '';
}

/** Plain YAML scalars that are no strings. */
const SCALARS = [
  ...['1.50', '010', '007', '1e10', '1234e567', '12345678901234567890', '0x10', '0o17', '3.0', '1e21', '0xFF', '-0', '+1', '.5', '5.'],
  ...['.inf', '-.INF', '.nan', 'true', 'TRUE', 'False', '1e-7', '0.1e1', '9007199254740993', '1.10', '-0.0'],
];
const number = fc
  .tuple(fc.constantFrom('', '-', '+'), fc.stringMatching(/^[0-9]{1,25}$/), fc.stringMatching(/^(\.[0-9]{0,4})?([eE][-+]?[0-9]{1,3})?$/))
  .map((parts) => parts.join(''));

describe('values of variables and tags keep their spelling', () => {
  test.each(SCALARS)('%s', (text) => {
    const { env, roles, master, tags } = parse(
      job(`env: {V: ${text}, A: &x ${text}, B: *x}
master: {env: {V: ${text}}}
tags: [${text}]
roles: {env: {env: {V: ${text}}}, other: &o {env: {V: ${text}}}, merged: {<<: *o, kind: independent}}`),
    );
    expect(env).toEqual({ V: text, A: text, B: text });
    expect([master.env, ...roles.map((role) => role.env)]).toEqual(Array(4).fill({ V: text }));
    expect(tags).toEqual([text]);
    const set = parse(job('roles: {worker: {env: {W: 1}}}'), [
      `env.V=${text}`,
      `roles.worker.env.V=${text}`,
      `master.env={V: ${text}}`,
      `tags=[${text}]`,
    ]);
    expect([set.env.V, set.roles[0]?.env.V, set.master.env.V, ...set.tags]).toEqual(Array(4).fill(text));
    const site = parseSite(`defaults: {env: {D: ${text}}, roles: {"*": {env: {E: ${text}}}}}\nfinal: {env: {F: ${text}}}`, 'site');
    const settled = parse(job('roles: {worker: {}}'), [], site);
    expect([settled.env.D, settled.roles[0]?.env.E, settled.env.F]).toEqual([text, text, text]);
  });

  test('in any number', () => {
    fc.assert(
      fc.property(number, (text) => {
        const yaml = job(`env: {V: ${text}}\nroles: {worker: {env: {W: ${text}}}}`);
        expect(parse(yaml).env).toEqual({ V: text });
        expect(parse(job('roles: {worker: {}}'), [`env.V=${text}`]).env).toEqual({ V: text });
      }),
    );
  });

  test('for every key whose values are variables', () => {
    const places: string[] = [];
    const walk = (schema: JsonSchema | boolean | undefined, path: readonly string[]): void => {
      if (typeof schema !== 'object') {
        return;
      }
      for (const branch of schema.anyOf ?? []) {
        walk(branch, path);
      }
      for (const [key, value] of Object.entries(schema.properties ?? {})) {
        if (key === 'env' || key === 'tags') {
          places.push([...path, key, '*'].join('.'));
          expect(isTextKey([...path, key, 'X']), [...path, key].join('.')).toBe(true);
        }
        walk(value as JsonSchema, [...path, key]);
      }
      walk(schema.additionalProperties as JsonSchema | undefined, [...path, 'x']);
    };
    walk(jobJsonSchema(), []);
    expect(places).toEqual(['env.*', 'roles.x.env.*', 'master.env.*', 'tags.*']);
  });

  test('but not where a number is expected', () => {
    const parsed = parse(job('timeout: 90s\nroles: {env: {instances: 0x2, resources: {memory: 1g, vcores: 2.0}}}'));
    expect(parsed.roles[0]).toMatchObject({ instances: 2, resources: { vcores: 2 } });
  });

  test('--set NAME= sets an empty variable, and quotes keep their meaning', () => {
    expect(parse(job('roles: {w: {}}'), ['env.A=', "env.B=''", 'env.C="1.50"', 'env.D=a b']).env).toEqual({
      A: '',
      B: '',
      C: '1.50',
      D: 'a b',
    });
    expect(message(() => parse(job('roles: {w: {}}'), ['name=']))).toContain('--set name=  name: expected a string, found nothing');
  });
});

describe('reports', () => {
  test('the value as it is written', () => {
    expect(message(() => parse('name: 1.50\ncommand: c\nroles: {w: {}}'))).toContain('name: expected a string, found `1.50`');
    expect(message(() => parse(job('roles: {w: {}}'), ['name=010']))).toContain('name: expected a string, found `010`');
  });

  test.each(['env: {A: !foo}', 'env: {A: !foo bar}', 'roles: {w: {command: !x}}', 'env: !map {A: 1}'])('the unknown tag in %s', (text) => {
    expect(message(() => parse(text.startsWith('roles') ? job(text) : job(`${text}\nroles: {w: {}}`)))).toMatch(/job.yaml:3:\d+ {2}`!\w+/);
  });

  test('an unknown tag in --set', () => {
    expect(message(() => parse(job('roles: {w: {}}'), ['env.A=!foo']))).toContain('`!foo` is not a known YAML tag');
    expect(parse(job('roles: {w: {}}'), ["env.A='!foo'"]).env).toEqual({ A: '!foo' });
  });

  test('a key that JavaScript objects cannot hold', () => {
    for (const text of ['env: {__proto__: x}', 'data: {__proto__: x}', 'x: {__proto__: x}', '"__proto__": x']) {
      expect(
        message(() => parse(job(`roles: {w: {}}\n${text}`))),
        text,
      ).toMatch(/job.yaml:4:\d+ {2}`__proto__` cannot be a key/);
    }
    expect(message(() => parse(job('roles: {w: {}}'), ['env.__proto__=x']))).toContain('`__proto__` cannot be a key');
    expect(message(() => parseSite('quotas: {users: {__proto__: {job: {gpus: 1}}}}', 'site'))).toContain('`__proto__` cannot be a key');
  });

  test('a second document', () => {
    expect(message(() => parse('name: a\n---\nname: b\n'))).toContain('a second document begins here');
  });
});

describe('merge keys', () => {
  test('copy the keys of other mappings, the own keys and the first mapping take precedence', () => {
    const { roles } = parse(
      job(`roles:
  a: &a {instances: 2, resources: {memory: 1g, gpus: 1}, command: a}
  b: &b {command: b, kind: independent}
  c: {<<: *a, command: c}
  d: {<<: [*b, *a], instances: 3}
  e: {"<<": 1}`).replace('\n  e: {"<<": 1}', ''),
      ['roles.c.resources.memory=3g'],
    );
    const shown = roles.map(({ name, instances, command, kind, resources }) => [
      name,
      instances,
      command,
      kind,
      resources.memoryMb,
      resources.gpus,
    ]);
    expect(shown).toEqual([
      ['a', 2, 'a', 'gang', 1024, 1],
      ['b', 1, 'b', 'independent', 2048, 0],
      ['c', 2, 'c', 'gang', 3072, 1],
      ['d', 3, 'b', 'independent', 1024, 1],
    ]);
  });

  test('an override of an aliased mapping keeps the other keys, and does not change the original', () => {
    const { roles } = parse(job('roles: {a: {resources: &r {memory: 1g, gpus: 1}}, b: {resources: *r}}'), ['roles.b.resources.memory=3g']);
    expect(roles.map(({ resources }) => [resources.memoryMb, resources.gpus])).toEqual([
      [1024, 1],
      [3072, 1],
    ]);
  });

  test('report a mistake once, at the copied key, and values that are no mappings', () => {
    expect(message(() => parse(job('roles:\n  a: &a {instnces: 2}\n  b: {<<: *a}')))).toMatch(
      /has a mistake:\n {2}job\.yaml:4:10 {2}roles\.a\.instnces: /,
    );
    expect(message(() => parse(job('roles: {a: {<<: 1}}')))).toContain('job.yaml:3:13  `<<` copies the keys');
    expect(message(() => parse(job('roles: {a: {<<: *none}}')))).toContain('`<<` copies the keys');
  });

  test('end when a mapping merges itself, and have a limit', () => {
    expect(parse(job('roles: {a: &a {<<: *a, instances: 2}}')).roles[0]?.instances).toBe(2);
    const levels = Array.from({ length: 40 }, (_, at) => `  r${at}: &r${at} {x: {<<: *r${at - 1}}, y: {<<: *r${at - 1}}}`);
    const text = job(`roles:\n  r-1: &r-1 {a: 1}\n${levels.join('\n')}`);
    expect(message(() => parse(text))).toContain('may copy at most 10000 values');
  });
});
