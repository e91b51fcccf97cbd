import { expect, test } from 'vitest';
import type { FrozenJob } from '../../conf/job.ts';
import { viewAccess } from './view-access.ts';

function frozen(properties: Record<string, string>, users: string[] = []): FrozenJob {
  const hadoop = { 'yarn.resourcemanager.webapp.address': 'rm.example:8088', ...properties };
  return { user: 'alice', job: { acls: { view: { users, groups: [] } } }, cluster: { kind: 'yarn', hadoop } } as unknown as FrozenJob;
}

function allowed(job: FrozenJob, ...users: (string | null)[]): boolean[] {
  const access = viewAccess(job, 'token');
  if (access.kind !== 'proxy') {
    throw new Error('expected a request from the proxy');
  }
  return users.map((user) => access.mayView(user));
}

test('every user has access when the cluster does not check ACLs', () => {
  expect(allowed(frozen({}), 'alice', 'dr.who', null)).toEqual([true, true, true]);
});

test('with ACLs, the owner, the listed users and the administrators have access', () => {
  const job = frozen({ 'yarn.acl.enable': 'true', 'yarn.admin.acl': 'root,yarn ops' }, ['bob']);
  expect(allowed(job, 'alice', 'bob', 'root', 'yarn', 'ops', 'dr.who', '*', null)).toEqual([
    true,
    true,
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(allowed(frozen({ 'yarn.acl.enable': 'true', 'yarn.admin.acl': ' ' }, ['*']), 'dr.who', null)).toEqual([true, true]);
});

test('accepts requests from the ResourceManagers, or only from a separate proxy', () => {
  expect(viewAccess(frozen({}), '')).toMatchObject({ hosts: ['rm.example'] });
  expect(viewAccess(frozen({ 'yarn.web-proxy.address': 'proxy.example:9046' }), '')).toMatchObject({ hosts: ['proxy.example'] });
  const pair = {
    'yarn.resourcemanager.ha.enabled': 'true',
    'yarn.resourcemanager.ha.rm-ids': 'rm1,rm2',
    'yarn.resourcemanager.webapp.address.rm1': 'one.example:8088',
    'yarn.resourcemanager.webapp.address.rm2': 'two.example:8088',
  };
  expect(viewAccess(frozen(pair), '')).toMatchObject({ hosts: ['one.example', 'two.example'] });
});

test('a local job requires its token', () => {
  const local = { ...frozen({}), cluster: { kind: 'local', directory: '/x' } } as FrozenJob;
  expect(viewAccess(local, 'secret')).toEqual({ kind: 'token', token: 'secret' });
});
