import { expect, it } from 'vitest';
import type { GangMember, GangPlace } from '../gang.ts';
import { member } from '../testing/member.ts';
import { horovodDefaults, horovodProcesses } from './variables.ts';

const network = { rendezvousPort: 4711, interface: 'eth0' };

function place(members: readonly GangMember[], role = 'worker', index = 1): GangPlace {
  return { jobId: 'application_1_0001', generation: 1, role, index, maxRestarts: 3, members };
}

it("sets horovodrun's variables; each task is a host, even on a shared node", () => {
  const members = [member('worker', 0, 0, 'node'), member('worker', 1, 1, 'node'), member('evaluator', 0, null)];
  expect(horovodProcesses(place(members), network)).toEqual([
    {
      HOROVOD_RANK: '1',
      HOROVOD_SIZE: '2',
      HOROVOD_LOCAL_RANK: '0',
      HOROVOD_LOCAL_SIZE: '1',
      HOROVOD_CROSS_RANK: '1',
      HOROVOD_CROSS_SIZE: '2',
      HOROVOD_HOSTNAME: 'worker-1',
      HOROVOD_CONTROLLER: 'gloo',
      HOROVOD_GLOO_RENDEZVOUS_ADDR: '127.0.0.1',
      HOROVOD_GLOO_RENDEZVOUS_PORT: '4711',
    },
  ]);
  expect(horovodProcesses(place(members, 'evaluator', 0), network)).toEqual([{}]);
});

// Recorded from Horovod 0.28.1's get_host_assignments for `chief-0:1,worker-0:3,worker-1:2`.
it('numbers the processes as horovodrun does, even if tasks have different numbers of processes', () => {
  const members = [member('chief', 0, 0), { ...member('worker', 0, 1), processes: 3 }, { ...member('worker', 1, 2), processes: 2 }];
  const numbers = ['RANK', 'LOCAL_RANK', 'CROSS_RANK', 'SIZE', 'LOCAL_SIZE', 'CROSS_SIZE'];
  const tasks = [place(members, 'chief', 0), place(members, 'worker', 0), place(members, 'worker', 1)];
  const processes = tasks.flatMap((task) => horovodProcesses(task, network));
  expect(processes.map((each) => numbers.map((name) => Number(each[`HOROVOD_${name}`])))).toEqual([
    [0, 0, 0, 6, 1, 3],
    [1, 0, 1, 6, 3, 3],
    [2, 1, 0, 6, 3, 2],
    [3, 2, 0, 6, 3, 1],
    [4, 0, 2, 6, 2, 3],
    [5, 1, 1, 6, 2, 2],
  ]);
});

it('lets Gloo choose the interface if no interface has the address of the host', () => {
  expect(horovodDefaults(network)).toMatchObject({ HOROVOD_GLOO_IFACE: 'eth0', NCCL_SOCKET_IFNAME: 'eth0' });
  expect(Object.keys(horovodDefaults({ ...network, interface: null }))).toEqual(['HOROVOD_CPU_OPERATIONS', 'HOROVOD_GLOO_TIMEOUT_SECONDS']);
});
