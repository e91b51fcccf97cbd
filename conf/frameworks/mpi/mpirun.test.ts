import { expect, test } from 'vitest';
import type { GangMember, GangPlace } from '../gang.ts';
import { mpiHosts, rankOfNode, sharedHostVariables } from './mpirun.ts';
import { prepareMpi } from './prepare-mpi.ts';

const member = (index: number, host: string, processes: number, taskRank: number | null = index): GangMember => {
  return { role: taskRank === null ? 'evaluator' : 'worker', index, taskRank, host, port: 4000, processes };
};

function place(members: readonly GangMember[]): GangPlace {
  return { jobId: 'application_1_0001', generation: 1, role: 'worker', index: 0, maxRestarts: 3, members };
}

test('each task with a rank is a node with as many slots as processes, in rank order', () => {
  const gang = place([member(2, 'c', 1), member(0, 'a', 2), member(1, 'b', 2), member(0, 'd', 1, null)]);
  expect(mpiHosts(gang)).toEqual({
    openMpi: 'localhost slots=2\ntony-1 slots=2\ntony-2 slots=1\n',
    hydra: 'localhost:2\ntony-1:2\ntony-2:1\n',
  });
  expect(['tony-12', 'tony-', 'tony-1x', 'node7', ''].map(rankOfNode)).toEqual([12, null, null, null, null]);
});

test('a task without a rank runs the user command', async () => {
  const task = {
    ...place([member(0, 'a', 1), member(0, 'b', 1, null)]),
    role: 'evaluator',
    host: 'b',
    resources: { memoryMb: 512, vcores: 1, gpus: 0 },
    servicePort: 0,
  };
  expect(await prepareMpi(task, { command: 'mpirun a.out', folder: '/nowhere', programs: '/nowhere' })).toBeNull();
});

test.each([
  ['different hosts', ['a', 'b'], 2, {}],
  ['one host and one process each', ['a', 'a'], 1, {}],
  ['one host and several processes each', ['a', 'a'], 2, { OMPI_MCA_btl: '^vader,sm' }],
])('Open MPI uses shared memory unless several processes per task share a host: tasks with %s', (_, hosts, processes, variables) => {
  expect(sharedHostVariables(place(hosts.map((host, index) => member(index, host, processes))))).toEqual(variables);
});
