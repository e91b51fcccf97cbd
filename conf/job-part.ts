import { z } from 'zod';
import { explainKey } from './explain-key.ts';
import { type JobFile, jobJsonSchema, jobSchema, roleSchema, tensorboardSchema } from './job-schema.ts';
import { ROLE_NAME_OR_ALL } from './role-name.ts';
import { count } from './value-schemas.ts';

/*
 * The part of job.yaml that a site file may set for all jobs: how they run. What a job is (its name, code, data, commands, what its roles mean to
 * each other) is for each job to say.
 */

/** Each role that the site file does not name. */
export const EVERY_ROLE = '*';

const { queue, runtime, env, gang, heartbeat, checkpoint, timeout, acls, master, tags } = jobSchema.shape;
const { every, keep } = checkpoint.unwrap().shape;
const { resources, env: roleEnv, nodeLabel, restart } = roleSchema.shape;

const roleName = z.string().regex(ROLE_NAME_OR_ALL, { error: 'is no name of a role (small letters, digits and -), and not *' });

/** Everything may be left out, and what is left out has no value. */
export const jobPartSchema = withoutDefaults(
  z.strictObject({
    queue,
    runtime,
    env,
    roles: z
      .record(
        roleName,
        z.strictObject({ instances: count(1, 100_000).describe('How many tasks.'), resources, env: roleEnv, nodeLabel, restart }),
      )
      .describe('Roles by name; "*" is each role, and what its name says counts more. No role is added to a job.'),
    gang,
    heartbeat,
    checkpoint: z.strictObject({ every, keep }),
    tensorboard: z.strictObject({ memory: tensorboardSchema.shape.memory }).describe('Of jobs that bring a TensorBoard.'),
    timeout,
    acls,
    master,
    tags,
  }),
) as z.ZodType<JobPart>;

/** As the schema reads it: units are resolved. */
export type JobPart = DeepPartial<
  Pick<JobFile, 'queue' | 'runtime' | 'env' | 'gang' | 'heartbeat' | 'timeout' | 'acls' | 'master' | 'tags'> & {
    readonly checkpoint: Pick<JobFile['checkpoint'], 'every' | 'keep'>;
    readonly tensorboard: Pick<JobFile['tensorboard'], 'memory'>;
  }
> & { readonly roles?: Readonly<Record<string, RolePart>> | undefined };

export type RolePart = DeepPartial<Pick<JobFile['roles'][string], 'resources' | 'env' | 'nodeLabel' | 'restart'>> & {
  readonly instances?: number | undefined;
};

type DeepPartial<T> = T extends readonly unknown[] ? T : T extends object ? { readonly [K in keyof T]?: DeepPartial<T[K]> | undefined } : T;

/** Why a site file cannot have a key that job.yaml has; undefined for what job.yaml does not have either. */
export function whyNotInSite(path: readonly (string | number)[]): string | undefined {
  return explainKey(jobJsonSchema(), path.join('.')) === null ? undefined : 'is for each job to say, not for a site file';
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
  if (schema instanceof z.ZodRecord) return described(z.record(schema.keyType, withoutDefaults(schema.valueType)), schema.description);
  return schema as z.ZodType;
}

function described(schema: z.ZodType, description: string | undefined): z.ZodType {
  return description === undefined || schema.description === description ? schema : schema.describe(description);
}
