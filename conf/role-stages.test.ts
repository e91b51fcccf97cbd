import { expect, test } from 'vitest';
import { role, workers } from './job.fixture.ts';
import type { Role, RoleCondition } from './job.ts';
import { stagesOf } from './role-stages.ts';

const after = (...names: string[]): { after: RoleCondition[] } => ({ after: names.map((name) => ({ role: name, state: 'succeeded' })) });
const stages = (...roles: Role[]): string[] =>
  stagesOf({ roles })
    .map((stage) => stage.join(' '))
    .sort();

test('roles without `after` run at the same time', () => {
  expect(stages(workers(), role({ name: 'evaluator' }))).toEqual(['worker evaluator']);
});

test('a role does not run together with the roles that must have succeeded before it', () => {
  const database = role({ name: 'database' });
  const prepare = role({ name: 'prepare', after: [{ role: 'database', state: 'running' }] });
  const report = role({ name: 'report', ...after('worker') });
  expect(stages(database, prepare, workers(after('prepare')), report)).toEqual(['database prepare', 'database report', 'database worker']);
});

test('the whole gang waits, and ranked roles succeed together', () => {
  const roles = [
    role({ name: 'load' }),
    workers(after('load')),
    role({ name: 'ps', servesParameters: true }),
    role({ name: 'chief', kind: 'gang' }),
  ];
  expect(stages(...roles)).toEqual(['load', 'worker ps chief']);
  const report = role({ name: 'report', ...after('worker') });
  expect(stages(...roles.filter(({ name }) => name !== 'ps'), report)).toEqual(['load', 'report', 'worker chief']);
  // Parameter servers end with the workers.
  expect(stages(...roles, report)).toEqual(['load', 'report', 'worker ps chief']);
});

test('roles of independent chains may run at the same time', () => {
  const chain = (name: string) => [role({ name: `${name}1` }), role({ name: `${name}2`, ...after(`${name}1`) })];
  expect(stages(...chain('a'), ...chain('b'))).toEqual(['a1 b1', 'a1 b2', 'a2 b1', 'a2 b2']);
  const many = Array.from({ length: 10 }, (_, index) => chain(`c${index}-`)).flat();
  expect(stagesOf({ roles: many })).toEqual([many.map(({ name }) => name)]);
});
