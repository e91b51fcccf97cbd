import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { TonyError } from '../../platform/errors.ts';
import { frameworkOf } from '../frameworks.ts';
import { isTracked, type Job, type Role } from '../job.ts';
import * as values from '../job-values.ts';
import { resolvedPython } from '../python.ts';
import { pathProblem, resolvedFiles } from '../shipped-files.ts';
import { resolvedDocker } from '../values/docker.ts';
import { otherResourceProblem } from '../values/resource-key.ts';
import { anyText, count, LONGEST_DURATION_MS, MOST_MEMORY_MB, text } from '../values/value-schemas.ts';
import type { YamlProblem } from '../yaml-file.ts';
import { SYNC_WITH_LIBRARY, unprotected } from './framework-problems.ts';
import { orderProblems } from './role-order.ts';
import { SERVING_ROLE } from './strategy-roles.ts';
import { tensorBoardRole } from './tensorboard-role.ts';

/*
 * Schema of a resolved job, which is the `job` field in job.json, or a Job that a program passes to `submit`. The schema enforces every
 * rule of job.yaml, because users can change both.
 */

const environment = z.record(values.variableName, z.string());
const acl = z.strictObject({ users: z.array(text()), groups: z.array(text()) });
const label = text().nullable();
const memoryMb = () => count(1, MOST_MEMORY_MB);
const ms = ({ min, max = LONGEST_DURATION_MS }: { readonly min: number; readonly max?: number }) => count(min, max);

const ownResources = z.strictObject({ memoryMb: memoryMb(), vcores: values.ownVcoreCount() });

const other = z.record(z.string(), count(0)).superRefine((amounts, context) => {
  for (const key of Object.keys(amounts)) {
    const message = otherResourceProblem(key);
    if (message !== undefined) {
      context.addIssue({ code: 'custom', path: [key], message });
    }
  }
});

const role: z.ZodType<Role> = z.strictObject({
  name: values.roleName,
  instances: values.taskCount(),
  maxInstances: values.taskCount(),
  resources: z.strictObject({ memoryMb: memoryMb(), vcores: values.vcoreCount(), gpus: values.gpuCount(), other }),
  command: anyText(),
  files: resolvedFiles.default([]),
  env: environment,
  nodeLabel: label,
  docker: resolvedDocker,
  restart: z.strictObject({
    policy: values.restartPolicy,
    maxRestarts: count(0, values.MOST_RESTARTS),
    onExitCodes: values.onExitCodes.nullable().default(null),
  }),
  timeoutMs: ms(values.TASK_TIMEOUT).nullable().default(null),
  gracePeriodMs: ms(values.GRACE_PERIOD).default(3_000),
  after: z
    .array(z.strictObject({ role: values.roleName, state: values.awaitedState }))
    .max(values.MOST_ROLES, { abort: true, error: values.TOO_MANY_CONDITIONS })
    .default([]),
  endAfter: z
    .strictObject({ roles: z.array(values.roleName).min(1), timeoutMs: ms(values.END_WITHIN), late: values.late })
    .nullable()
    .default(null),
  kind: values.roleKind,
  chief: z.boolean(),
  servesParameters: z.boolean(),
  spare: z.boolean().default(false),
});

export const resolvedJobSchema: z.ZodType<Job> = z
  .strictObject({
    name: values.jobName,
    queue: text(),
    source: z.strictObject({ path: anyText(), exclude: z.array(anyText()) }).nullable(),
    framework: values.framework,
    processesPerTask: values.processesPerTask,
    runtime: anyText(),
    python: resolvedPython.default({ type: 'system' }),
    data: z.record(values.dataName, anyText()),
    files: resolvedFiles.default([]),
    env: environment,
    roles: z.array(role).min(1).max(values.MOST_ROLES, { abort: true, error: values.TOO_MANY_ROLES }),
    successPolicy: values.successPolicy,
    restart: z.strictObject({ maxRestarts: count(0, values.MOST_RESTARTS).nullable() }).default({ maxRestarts: null }),
    gang: z.strictObject({ timeoutMs: ms(values.GANG_TIMEOUT) }),
    heartbeat: z.strictObject({ intervalMs: ms(values.HEARTBEAT_INTERVAL), missed: values.missedHeartbeats() }),
    checkpoint: z.strictObject({
      dir: anyText().nullable(),
      everySteps: values.checkpointSteps().nullable(),
      everyMs: ms(values.CHECKPOINT_INTERVAL).nullable().default(null),
      keep: values.checkpointKeep(),
      sync: values.syncFolder().nullable().default(null),
    }),
    tensorboard: z.strictObject({ logdir: anyText().nullable(), serve: z.boolean(), resources: ownResources }),
    strategy: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('all-reduce') }),
      z.strictObject({
        type: z.literal('parameter-server'),
        staleness: values.stepsOfStaleness().nullable(),
      }),
    ]),
    wire: z.strictObject({ dtype: values.wireDtype, security: values.wireSecurity }),
    timeoutMs: ms(values.JOB_TIMEOUT).nullable(),
    acls: z.strictObject({ view: acl, modify: acl }),
    kerberos: z.strictObject({ keytab: anyText(), principal: values.principal.nullable() }).nullable(),
    remoteAccess: z.boolean(),
    master: z.strictObject({
      resources: ownResources,
      nodeLabel: label,
      docker: resolvedDocker,
      env: z.record(values.masterVariableName, z.string()),
      logLevel: values.logLevel,
      failureWindowMs: ms(values.FAILURE_WINDOW).nullable(),
      startTimeoutMs: ms(values.MASTER_START_TIMEOUT).nullable(),
    }),
    priority: values.applicationPriority(),
    tags: z.array(values.tag).max(values.MOST_TAGS),
  })
  .superRefine((job, context) => {
    for (const { path, message } of [...roleProblems(job), ...orderOfRoles(job), ...problemsOfAll(job), ...fileProblems(job)]) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
  });

/** Reports combinations of values that cannot result from a valid job.yaml. */
function roleProblems(job: Job): YamlProblem[] {
  return job.roles.flatMap((each, index) => {
    const { name, instances, maxInstances, kind, chief, servesParameters, spare } = each;
    const serves = job.strategy.type === 'parameter-server' && name === SERVING_ROLE;
    const rules: readonly (readonly [boolean, string, string])[] = [
      [job.roles.findIndex((other) => other.name === name) === index, 'name', `is also the name of another role: ${name}`],
      [maxInstances >= instances, 'maxInstances', 'is less than instances'],
      [maxInstances === instances || kind === 'gang', 'maxInstances', 'only a role of kind gang may grow'],
      [
        !spare || (job.tensorboard.serve && isDeepStrictEqual(each, tensorBoardRole(job.tensorboard.resources))),
        'spare',
        'only the role that tony-ts adds for TensorBoard may be spare',
      ],
      [!chief || isTracked(each), 'chief', 'the chief must be of kind gang or independent'],
      [
        servesParameters === serves,
        'servesParameters',
        `only role ${SERVING_ROLE} serves parameters, and only with strategy parameter-server`,
      ],
      [!serves || kind === 'service', 'kind', 'a parameter server is a service'],
    ];
    return rules.flatMap(([holds, key, message]) => (holds ? [] : [{ path: ['roles', index, key], message }]));
  });
}

function orderOfRoles({ roles, successPolicy }: Job): YamlProblem[] {
  return orderProblems(roles, successPolicy).map(({ path: [name, ...rest], message }) => ({
    path: ['roles', roles.findIndex((role) => role.name === name), ...rest],
    message,
  }));
}

function problemsOfAll({ roles, framework, strategy, wire, checkpoint }: Job): YamlProblem[] {
  const rules: readonly (readonly [boolean, string])[] = [
    [roles.filter(({ instances, maxInstances }) => maxInstances > instances).length <= 1, 'only one role may grow'],
    [roles.filter(({ chief }) => chief).length === 1, 'exactly one role must be the chief'],
    [strategy.type === 'all-reduce' || wire.dtype === 'float32', 'wire.dtype applies only to strategy all-reduce'],
    [roles.some(isTracked), 'at least one role must be of kind gang or independent'],
  ];
  const reason = unprotected(framework);
  const unprotectedProblem = reason === undefined || wire.security === 'none' ? [] : [{ path: ['wire', 'security'], message: reason }];
  const syncProblem =
    frameworkOf(framework).trainingLibrary === 'always' && checkpoint.sync !== null
      ? [{ path: ['checkpoint', 'sync'], message: SYNC_WITH_LIBRARY }]
      : [];
  return [...rules.flatMap(([holds, message]) => (holds ? [] : [{ path: ['roles'], message }])), ...unprotectedProblem, ...syncProblem];
}

function fileProblems({ files, roles }: Job): YamlProblem[] {
  const ofJob = new Set(files.map(({ name }) => name));
  return [
    { path: ['files'], own: files, above: new Set<string>() },
    ...roles.map(({ files: own }, at) => ({ path: ['roles', at, 'files'], own, above: ofJob })),
  ].flatMap(({ path, own, above }) => {
    const before = new Set<string>();
    return own.flatMap(({ name, path: place, visibility }, at) => {
      const message = above.has(name) || before.has(name) ? `${name} is the name of two files` : pathProblem(place, visibility);
      before.add(name);
      return message === undefined ? [] : [{ path: [...path, at], message }];
    });
  });
}

const MOST_MISTAKES = 5;

/** Describes the first few mistakes with their paths. `whole` is the name of the validated object. */
export function describeMistakes({ issues }: z.ZodError, whole: string): string {
  const mistakes = new Set(issues.map(({ path, message }) => `${path.join('.') || whole}: ${message}`));
  return [...mistakes].slice(0, MOST_MISTAKES).join('; ');
}

/**
 * Validates a Job that a program has created or changed. Applies all job.yaml rules. Returns a copy.
 * @throws TonyError JOB_INVALID with the first few mistakes.
 */
export function checkedJob(job: Job): Job {
  const parsed = resolvedJobSchema.safeParse(job);
  if (parsed.success) {
    return parsed.data;
  }
  throw new TonyError('JOB_INVALID', `The job violates the rules of job.yaml: ${describeMistakes(parsed.error, 'the job')}.`, {
    hint: 'Create the job with loadJob or parseJob. Other resource types belong in resources.other, under their YARN names.',
  });
}
