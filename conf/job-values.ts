import * as z from 'zod';
import { FRAMEWORK_NAMES } from './frameworks/names.ts';
import { ROLE_KINDS, WIRE_DTYPES, WIRE_SECURITY } from './job.ts';
import { MOST_PROCESSES } from './processes.ts';
import { isRoleTag, LONGEST_TAG } from './role-tags.ts';
import { MOST_GRACE_MS } from './values/lease.ts';
import { isReservedVariable } from './values/reserved-variables.ts';
import { ROLE_NAME } from './values/role-name.ts';
import { count, text } from './values/value-schemas.ts';
import type { YamlPath } from './yaml-document.ts';

export const jobName = text()
  .max(200)
  .regex(/^[\w][\w .:@+-]*$/, {
    error: 'may contain only letters, digits, spaces and . _ : @ + -, and must start with a letter, a digit or _',
  });
export const roleName = z
  .string()
  .regex(ROLE_NAME, { error: 'is not a valid role name (lower-case letters, digits and -)' })
  .refine((name) => name !== 'master', { error: 'is the name of the ApplicationMaster in logs: choose another name, such as chief' });
export const dataName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]*$/, { error: 'is not a valid data folder name (letters, digits, - and _)' });
export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'is not a valid environment variable name' })
  .refine((name) => !isReservedVariable(name), {
    error: 'begins with TONY_, which tony-ts reserves for its own variables: choose another name',
  });
/** YARN reads variables with this prefix when it starts the ApplicationMaster's container. They would override `master.docker`. */
export const masterVariableName = variableName.refine((name) => !name.startsWith('YARN_CONTAINER_RUNTIME_'), {
  error: 'is a variable that chooses the container: set `master.docker` instead',
});
export const tag = text()
  .max(LONGEST_TAG)
  .regex(/^[ -+--~]*$/, {
    error: 'may contain only printable ASCII characters other than commas: YARN rejects other characters, and separates tags with commas',
  })
  .refine((value) => !isRoleTag(value), { error: 'begins with a prefix that tony-ts reserves for its own tags: choose another tag' });
export const MOST_TAGS = 20;

/**
 * Maximum number of roles, and of roles for which one role waits. Some checks compare every role with every other role, also in the
 * job.json of other users.
 */
export const MOST_ROLES = 100;
export const TOO_MANY_ROLES = `a job has at most ${MOST_ROLES} roles`;
export const TOO_MANY_CONDITIONS = `a role waits for at most ${MOST_ROLES} conditions`;

export const taskCount = () => count(1, 100_000);
/** Kubernetes also accepts thousandths of a core, YARN does not. */
const notCores: z.core.$ZodErrorMap = ({ input }) =>
  typeof input === 'string' && /^\d+m$/.test(input)
    ? `expected a whole number of cores such as ${Math.max(1, Math.ceil(Number.parseInt(input, 10) / 1000))}, not thousandths of a core as in Kubernetes`
    : 'expected a whole number of cores';
export const vcoreCount = () => count(1, 4096, notCores);
export const gpuCount = () => count(0, 1024);
export const ownVcoreCount = () => count(1, 64, notCores);
export const MOST_RESTARTS = 10_000;

/** Accepts `alice@EXAMPLE.COM` and `service/host@REALM`. Rejects strings that kinit would treat as options. */
export const principal = text().regex(/^[^\s@-][^\s@]*(@[^\s@]+)?$/, { error: 'expected a Kerberos principal such as alice@EXAMPLE.COM' });

export const logLevel = z.enum(['debug', 'info', 'warn', 'error']);
export const applicationPriority = () => count(0, 1000);
export const framework = z.enum(FRAMEWORK_NAMES);
export const processesPerTask = z.union([z.literal('auto'), count(1, MOST_PROCESSES)], {
  error: `expected auto, or a number from 1 to ${MOST_PROCESSES}`,
});
export const successPolicy = z.enum(['all', 'chief', 'ended']);
export const roleKind = z.enum(ROLE_KINDS);
export const restartPolicy = z.enum(['on-failure', 'never']);
export const onExitCodes = z.array(count(1, 255, 'expected an exit code from 1 to 255'), { error: 'expected a list of exit codes' });
export const awaitedState = z.enum(['running', 'succeeded']);
export const late = z.enum(['stop', 'fail']);
export const wireDtype = z.enum(WIRE_DTYPES);
export const wireSecurity = z.enum(WIRE_SECURITY);

/** Limits for durations, in ms. */
export const GANG_TIMEOUT = { min: 1000, max: 570_000, why: 'YARN reclaims unused containers after 10 minutes' };
export const HEARTBEAT_INTERVAL = { min: 100, max: 60_000 };
export const JOB_TIMEOUT = { min: 1000 };
export const TASK_TIMEOUT = { min: 1000 };
export const END_WITHIN = { min: 0 };
/** A job's end, and the next program of a task, wait for the grace period. */
export const GRACE_PERIOD = { min: 0, max: MOST_GRACE_MS };

export const MASTER_START_TIMEOUT = { min: 1000 };
/**
 * Minimum length of the failure window. YARN ignores failures that are older than the window. If the window were too short, YARN would
 * restart a defective ApplicationMaster forever.
 */
export const FAILURE_WINDOW = { min: 10_000 };

export const missedHeartbeats = () => count(2, 1000);
export const checkpointSteps = () => count(1);
export const CHECKPOINT_INTERVAL = {
  min: 1000,
  message: 'expected a duration such as 10m; for a number of training steps, write `everySteps`',
};
/**
 * Accepts a folder below the working directory. The executor empties this folder, so it must not be the working directory or a folder
 * outside it.
 */
export const syncFolder = () =>
  text()
    .max(200)
    .refine((value) => !value.startsWith('/') && folderNames(value).length > 0 && !folderNames(value).includes('..'), {
      error: 'expected a folder below the working directory, such as ./ckpt',
    })
    .transform((value) => folderNames(value).join('/'));

function folderNames(value: string): string[] {
  return value.split('/').filter((name) => name !== '' && name !== '.');
}

export const checkpointKeep = () => count(1, 10_000);
export const stepsOfStaleness = () => count(0, 1_000_000);

/** Keys whose values are text, even if YAML would read them as numbers or booleans. `*` stands for any name or index. */
const TEXT_KEYS: ReadonlySet<string> = new Set(['env.*', 'master.env.*', 'roles.*.env.*', 'tags.*']);

/** Returns true for keys of job.yaml whose values keep their spelling. Otherwise, `V: 1.50` would set the variable V to `1.5`. */
export function isTextKey(path: YamlPath): boolean {
  const place = path.map((key, index) => (index === path.length - 1 || (index === 1 && path[0] === 'roles') ? '*' : key));
  return TEXT_KEYS.has(place.join('.'));
}
