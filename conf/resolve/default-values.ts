import { isRecord } from '../../platform/is-record.ts';
import { EVERY_ROLE } from '../values/role-name.ts';

const ONE_VALUE: ReadonlySet<string> = new Set(['docker', 'kerberos']);

/** Returns true for keys whose mappings are never merged with other mappings, because their keys depend on each other. */
export function isOneValue(key: string): boolean {
  return ONE_VALUE.has(key);
}

type Mapping = Readonly<Record<string, unknown>>;

/**
 * Merges a site file's `defaults` into the content of job.yaml. Values in job.yaml take precedence. Leaves values of the wrong type
 * unchanged, because the validation reports them later.
 */
export function withDefaults(written: unknown, defaults: Mapping): unknown {
  if (!isRecord(written)) {
    return written;
  }
  const { roles, tensorboard, checkpoint, ...rest } = defaults;
  const fill = isRecord(checkpoint) ? { ...rest, checkpoint: checkpointDefaults(written.checkpoint, checkpoint) } : rest;
  const filled = filledUp(written, fill);
  return {
    ...filled,
    ...(isRecord(written.roles) && isRecord(roles) && { roles: rolesWithDefaults(written.roles, roles, written.env) }),
    ...withTensorBoardDefaults(written.tensorboard, tensorboard),
  };
}

/** Returns the defaults for one role. Defaults under the role's own name take precedence over those under "*". */
function defaultsOfRole(roles: Mapping, name: string): Mapping {
  return filledUp(ownMapping(roles, name), ownMapping(roles, EVERY_ROLE));
}

function rolesWithDefaults(written: Mapping, defaults: Mapping, jobEnvironment: unknown): Mapping {
  const jobVariables = isRecord(jobEnvironment) ? jobEnvironment : {};
  return Object.fromEntries(
    Object.entries(written).map(([name, role]) => {
      if (!isRecord(role)) {
        return [name, role];
      }
      const { env, ...rest } = defaultsOfRole(defaults, name);
      // Variables in the job's `env` take precedence over the variables that the site file sets for the role.
      const missing = Object.entries(isRecord(env) ? env : {}).filter(([variable]) => !Object.hasOwn(jobVariables, variable));
      return [name, filledUp(role, missing.length === 0 ? rest : { ...rest, env: Object.fromEntries(missing) })];
    }),
  );
}

/** A job that says when it writes checkpoints, by steps or by time, replaces both defaults. */
function checkpointDefaults(written: unknown, { everySteps, every, ...others }: Mapping): Mapping {
  const own = isRecord(written) ? written : {};
  return own.everySteps === undefined && own.every === undefined ? { everySteps, every, ...others } : others;
}

/** Add the defaults for TensorBoard only if job.yaml enables TensorBoard. */
function withTensorBoardDefaults(written: unknown, defaults: unknown): Mapping {
  if (!isRecord(defaults)) {
    return {};
  }
  if (written === true) {
    return { tensorboard: defaults };
  }
  return isRecord(written) ? { tensorboard: filledUp(written, defaults) } : {};
}

/**
 * Adds the keys in `fill` that are missing from `into`. Merges nested mappings recursively, but treats Docker containers and keytabs as
 * single values.
 */
function filledUp(written: Mapping, fill: Mapping): Mapping {
  const filled = new Map(Object.entries(written));
  for (const [key, value] of Object.entries(fill)) {
    const own = filled.get(key);
    if (own === undefined) {
      filled.set(key, value);
    } else if (!isOneValue(key) && isRecord(own) && isRecord(value)) {
      filled.set(key, filledUp(own, value));
    }
  }
  return Object.fromEntries(filled);
}

function ownMapping(mapping: Mapping, key: string): Mapping {
  const value = Object.hasOwn(mapping, key) ? mapping[key] : undefined;
  return isRecord(value) ? value : {};
}
