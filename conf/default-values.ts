import { EVERY_ROLE } from './job-part.ts';

/* Merges the `defaults` of a site file into a job.yaml, both in their written form. Values of job.yaml take precedence. */

type Mapping = Readonly<Record<string, unknown>>;

/**
 * @param written the content of job.yaml, valid or not. A value that should be a mapping but is not stays unchanged, and fails the validation.
 */
export function withDefaults(written: unknown, defaults: Mapping): unknown {
  if (!isMapping(written)) {
    return written;
  }
  const { roles, tensorboard, ...rest } = defaults;
  const filled = filledUp(written, rest);
  return {
    ...filled,
    ...(isMapping(written.roles) && isMapping(roles) && { roles: rolesWithDefaults(written.roles, roles, written.env) }),
    ...withTensorBoardDefaults(written.tensorboard, tensorboard),
  };
}

/** The defaults of one role; an entry with the role's name takes precedence over "*". */
function defaultsOfRole(roles: Mapping, name: string): Mapping {
  return filledUp(ownMapping(roles, name), ownMapping(roles, EVERY_ROLE));
}

function rolesWithDefaults(written: Mapping, defaults: Mapping, jobEnvironment: unknown): Mapping {
  const jobVariables = isMapping(jobEnvironment) ? jobEnvironment : {};
  return Object.fromEntries(
    Object.entries(written).map(([name, role]) => {
      if (!isMapping(role)) {
        return [name, role];
      }
      const { env, ...rest } = defaultsOfRole(defaults, name);
      // A variable of a role overrides the job's variable of the same name. A default for the role must not do this.
      const missing = Object.entries(isMapping(env) ? env : {}).filter(([variable]) => !Object.hasOwn(jobVariables, variable));
      return [name, filledUp(role, missing.length === 0 ? rest : { ...rest, env: Object.fromEntries(missing) })];
    }),
  );
}

/** Applies only to a job that sets `tensorboard`, either to `true` or to a mapping. */
function withTensorBoardDefaults(written: unknown, defaults: unknown): Mapping {
  if (!isMapping(defaults)) {
    return {};
  }
  if (written === true) {
    return { tensorboard: defaults };
  }
  return isMapping(written) ? { tensorboard: filledUp(written, defaults) } : {};
}

/** Merges mappings key by key. A Docker container is one value, and any other value too. */
function filledUp(written: Mapping, fill: Mapping): Mapping {
  const filled = new Map(Object.entries(written));
  for (const [key, value] of Object.entries(fill)) {
    const own = filled.get(key);
    if (own === undefined) {
      filled.set(key, value);
    } else if (key !== 'docker' && isMapping(own) && isMapping(value)) {
      filled.set(key, filledUp(own, value));
    }
  }
  return Object.fromEntries(filled);
}

function ownMapping(mapping: Mapping, key: string): Mapping {
  const value = Object.hasOwn(mapping, key) ? mapping[key] : undefined;
  return isMapping(value) ? value : {};
}

function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
