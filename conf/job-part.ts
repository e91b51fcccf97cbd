import * as z from 'zod';
import { once } from '../platform/once.ts';
import { explainKey } from './explain-key.ts';
import { foreignKeyProblem } from './foreign-keys.ts';
import { type JobYaml, jobJsonSchema, jobSchema, roleSchema, tensorboardSchema, wireSchema } from './job-schema.ts';
import { taskCount } from './job-values.ts';
import type { DockerContainer } from './values/docker.ts';
import { EVERY_ROLE } from './values/role-name.ts';
import { roleNameOrAll } from './values/value-schemas.ts';

/*
 * job.yaml keys that a site file may set. These keys control how jobs run. All other keys describe the job itself, such as its name, code,
 * data and commands.
 */

const {
  queue,
  runtime,
  env,
  restart: jobRestart,
  gang,
  heartbeat,
  checkpoint,
  timeout,
  acls,
  kerberos,
  remoteAccess,
  master,
  priority,
  tags,
} = jobSchema.shape;
const { everySteps, every, keep } = checkpoint.unwrap().shape;
const { resources, env: roleEnv, nodeLabel, docker, restart } = roleSchema.shape;
const { policy, maxRestarts } = restart.unwrap().shape;

const PART = {
  queue,
  runtime,
  env,
  roles: z
    .record(
      roleNameOrAll,
      z.strictObject({
        instances: taskCount().describe('Number of tasks.'),
        resources,
        env: roleEnv,
        nodeLabel,
        docker,
        restart: z.strictObject({ policy, maxRestarts }).describe('Whether and how often failed tasks of the role restart.'),
      }),
    )
    .describe(
      'Settings by role name. "*" applies to every role, but an entry for a specific role takes precedence. This section adds no roles to jobs.',
    ),
  restart: jobRestart,
  gang,
  heartbeat,
  checkpoint: z.strictObject({ everySteps, every, keep }),
  tensorboard: z.strictObject({ resources: tensorboardSchema.shape.resources }).describe('Settings for jobs that run TensorBoard.'),
  wire: z.strictObject({ security: wireSchema.shape.security }).describe('How the programs of a job exchange data.'),
  timeout,
  acls,
  remoteAccess,
  master,
  priority,
  tags,
};

/** Keys that a site file may override. Every key is optional and has no default. */
export const finalSchema = withoutDefaults(z.strictObject(PART)) as z.ZodType<JobPart>;

/**
 * Keys for which a site file may set defaults. They include `kerberos`, which a site file cannot override, because only the user may decide
 * which keytab a job ships.
 */
export const defaultsSchema = withoutDefaults(z.strictObject({ ...PART, kerberos })) as z.ZodType<JobPart>;

export type JobPart = DeepPartial<
  Pick<
    JobYaml,
    'queue' | 'runtime' | 'env' | 'restart' | 'gang' | 'heartbeat' | 'timeout' | 'acls' | 'remoteAccess' | 'master' | 'priority' | 'tags'
  > & {
    readonly checkpoint: Pick<JobYaml['checkpoint'], 'everySteps' | 'every' | 'keep'>;
    readonly tensorboard: Pick<JobYaml['tensorboard'], 'resources'>;
    readonly wire: Pick<JobYaml['wire'], 'security'>;
  }
> & { readonly roles?: Readonly<Record<string, RolePart>> | undefined };

export type RolePart = DeepPartial<Pick<JobYaml['roles'][string], 'resources' | 'env' | 'nodeLabel' | 'docker' | 'restart'>> & {
  readonly instances?: number | undefined;
};

/** A Docker container is treated as a single value, because its mounts and network depend on its image. */
type DeepPartial<T> = T extends readonly unknown[] | DockerContainer
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: DeepPartial<T[K]> | undefined }
    : T;

/** The creation of the schema takes several milliseconds. */
const jobKeys = once(jobJsonSchema);

/** Returns the reason why a site file cannot set this key, or undefined for an unknown key. */
export function whyNotInSite(path: readonly (string | number)[]): string | undefined {
  // Inside a mapping such as `master`, a site file has the keys of job.yaml.
  const foreign = path.length > 1 && path[0] !== 'roles' ? foreignKeyProblem(path) : undefined;
  if (foreign !== undefined) {
    return foreign;
  }
  return explainKey(jobKeys(), path.join('.')) === null ? undefined : 'can be set in job.yaml only, not in a site file';
}

function withoutDefaults(schema: z.core.$ZodType): z.ZodType {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) {
    return described(withoutDefaults(schema.unwrap()), schema.description);
  }
  if (schema instanceof z.ZodObject) {
    const shape = Object.fromEntries(Object.entries(schema.shape).map(([key, value]) => [key, withoutDefaults(value).optional()]));
    const { catchall } = schema.def;
    return described(catchall === undefined ? z.object(shape) : z.object(shape).catchall(catchall), schema.description);
  }
  if (schema instanceof z.ZodRecord) {
    return described(z.record(schema.keyType, withoutDefaults(schema.valueType)), schema.description);
  }
  return schema as z.ZodType;
}

function described(schema: z.ZodType, description: string | undefined): z.ZodType {
  return description === undefined || schema.description === description ? schema : schema.describe(description);
}

/** Returns the values for a role: those of its own entry, and those of the entry `*` for all other keys. */
export function roleValues(roles: Readonly<Record<string, RolePart>>, name: string) {
  const [every, named] = [EVERY_ROLE, name].map((key): RolePart => (Object.hasOwn(roles, key) ? roles[key] : undefined) ?? {});
  return {
    ...every,
    ...named,
    resources: { ...every?.resources, ...named?.resources },
    restart: { ...every?.restart, ...named?.restart },
    env: { ...every?.env, ...named?.env },
  };
}
