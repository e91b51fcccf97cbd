import type { FrozenJob, Role } from '../conf/job.ts';
import type { Changes } from './handmade-job.ts';

/** Changes with which a user tries to bypass the site file, for clusters with and without Kerberos. */

export const SITE = `
quotas:
  roles: {worker: {instances: 2, task: {gpus: 1}, total: {gpus: 3}}}
  users: {bob: {instances: 9}, '*': {task: {memory: 1536m}}}
  queues: {gpu: {instances: 1}}
final:
  heartbeat: {interval: 3s}
`;
/** The roles of a job within the limits. */
export const ALLOWED = 'roles: {worker: {instances: 1, resources: {memory: 512m}}}\n';
/** Folders on HDFS to which all users may write, one for each job that claims to belong to another user. */
export const EVERYBODYS = ['/everybodys', '/everybodys-too'] as const;
export const TOO_MANY = /quotas\.roles\.worker\.instances: role worker requests 3 tasks, but the limit is 2/;

export function withWorker(change: (worker: Role) => Role): (honest: FrozenJob) => FrozenJob {
  return (honest) => ({ ...honest, job: { ...honest.job, roles: honest.job.roles.map(change) } });
}

/** Requests too many tasks, and changes the Hadoop configuration in job.json. */
export function withHadoop(properties: Readonly<Record<string, string>>): (honest: FrozenJob) => FrozenJob {
  return (honest) => {
    if (honest.cluster.kind !== 'yarn') {
      throw new Error('a local job');
    }
    return { ...withWorker(larger)(honest), cluster: { kind: 'yarn', hadoop: { ...honest.cluster.hadoop, ...properties } } };
  };
}

/** All users may write to the job's folders, so that the job reaches the quota check. */
function asBob(everybodys: string): (honest: FrozenJob) => FrozenJob {
  return (honest) => {
    const folder = new URL(everybodys, honest.staging).href;
    return { ...withWorker(larger)(honest), user: 'bob', staging: folder, history: folder };
  };
}
const larger = (worker: Role): Role => ({ ...worker, instances: 3, maxInstances: 3 });

type Case = [title: string, changes: Changes, diagnostics: RegExp];

/** Jobs that fail the ApplicationMaster's check of their resources and values. */
export const OVER_LIMITS: readonly Case[] = [
  ['with more tasks', { job: withWorker(larger) }, TOO_MANY],
  [
    'with more GPUs',
    { job: withWorker((worker) => ({ ...worker, resources: { ...worker.resources, gpus: 2 } })) },
    /quotas\.roles\.worker\.task\.gpus: each task of role worker requests 2 gpus, but the limit is 1 gpu/,
  ],
  ['without tags', { tags: () => [] }, /application's tags do not state the resources that the job requests/],
  [
    'with false tags',
    {
      job: withWorker((worker) => ({ ...worker, resources: { ...worker.resources, gpus: 1 } })),
      tags: (honest) => honest.map((tag) => tag.replace(/:g1$/, '')),
    },
    /application's tags do not state the resources that the job requests/,
  ],
  [
    'without the final values',
    { job: (honest) => ({ ...honest, job: { ...honest.job, heartbeat: { intervalMs: 1000, missed: 10 } } }) },
    /does not have the final values that hdfs:\S+\/apps\/tony-ts\/site\.yaml sets: heartbeat\.interval is 1s, but must be 3s/,
  ],
  [
    'with a larger ApplicationMaster than job.json states',
    { masterMb: 2048 },
    /quotas\.users\.\*\.task\.memory: the ApplicationMaster requests 2 GiB of memory, but the limit is 1\.5 GiB of memory/,
  ],
];

/** Jobs that contradict what YARN and HDFS report about them. The ApplicationMaster rejects these jobs. */
export const IN_ANOTHER_NAME: readonly Case[] = [
  ['as another type of application', { type: 'OTHER' }, /not list the job among the applications of type TONY/],
  ["in another user's name", { job: asBob(EVERYBODYS[0]) }, /job\.json belongs to user bob, but YARN runs the application for alice/],
  [
    "under another user's name in its environment too",
    { job: asBob(EVERYBODYS[1]), environment: { USER: 'bob', LOGNAME: 'bob' } },
    /job\.json belongs to user bob, but YARN runs the application for alice/,
  ],
  [
    'as an earlier application',
    {
      job: (honest) => ({ ...honest, jobId: 'application_1_0001' }),
      environment: { CONTAINER_ID: 'container_1_0001_01_000001' },
    },
    /job\.json belongs to application_1_0001, but YARN runs it as application_\d{13}_/,
  ],
];

/** Jobs that fail before their ApplicationMaster registers. frozen-job.test.ts contains the other values that job.json must not have. */
export const INVALID: readonly Case[] = [
  [
    'a second role with the same name',
    {
      job: (honest) => {
        const { roles } = honest.job;
        const many = roles.map((worker) => ({ ...worker, instances: 9, maxInstances: 9 }));
        const few = roles.map((worker) => ({ ...worker, chief: false }));
        return { ...honest, job: { ...honest.job, roles: [...many, ...few] } };
      },
    },
    /roles\.1\.name: is also the name of another role/,
  ],
  ['a job.json that was replaced after the submission', { replaced: withWorker(larger) }, /job\.json is not the submitted file/],
  [
    'a job.json of a local job, to which no quotas apply',
    { job: (honest) => ({ ...withWorker(larger)(honest), cluster: { kind: 'local', directory: '/tmp' } }) },
    /cluster\.kind local, but YARN runs it/,
  ],
];
