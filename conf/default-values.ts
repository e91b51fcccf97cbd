import { EVERY_ROLE } from './job-part.ts';

/* Merges the `defaults` of a site file into a job.yaml, both in their written form. Values of job.yaml take precedence. */

type Mapping = Readonly<Record<string, unknown>>;

/**
 * @param said the content of job.yaml, valid or not. A value that should be a mapping but is not stays unchanged, and fails the validation.
 */
export function withDefaults(said: unknown, defaults: Mapping): unknown {
  if (!isMapping(said)) {
    return said;
  }
  const { roles, tensorboard, ...rest } = defaults;
  const filled = filledUp(said, rest);
  return {
    ...filled,
    ...(isMapping(said.roles) && isMapping(roles) && { roles: rolesWithDefaults(said.roles, roles, said.env) }),
    ...withTensorBoardDefaults(said.tensorboard, tensorboard),
  };
}

/** The defaults of one role; an entry with the role's name takes precedence over "*". */
function defaultsOfRole(roles: Mapping, name: string): Mapping {
  return filledUp(ownMapping(roles, name), ownMapping(roles, EVERY_ROLE));
}

function rolesWithDefaults(said: Mapping, defaults: Mapping, jobEnvironment: unknown): Mapping {
  const saidOfAll = isMapping(jobEnvironment) ? jobEnvironment : {};
  return Object.fromEntries(
    Object.entries(said).map(([name, role]) => {
      if (!isMapping(role)) {
        return [name, role];
      }
      const { env, ...rest } = defaultsOfRole(defaults, name);
      // A variable of a role overrides the job's variable of the same name. A default for the role must not do this.
      const unsaid = Object.entries(isMapping(env) ? env : {}).filter(([variable]) => !Object.hasOwn(saidOfAll, variable));
      return [name, filledUp(role, unsaid.length === 0 ? rest : { ...rest, env: Object.fromEntries(unsaid) })];
    }),
  );
}

/** Applies only to a job that sets `tensorboard`, either to `true` or to a mapping. */
function withTensorBoardDefaults(said: unknown, defaults: unknown): Mapping {
  if (!isMapping(defaults)) {
    return {};
  }
  if (said === true) {
    return { tensorboard: defaults };
  }
  return isMapping(said) ? { tensorboard: filledUp(said, defaults) } : {};
}

/** Merges mappings key by key. A Docker container is one value, and any other value too. */
function filledUp(said: Mapping, fill: Mapping): Mapping {
  const filled = new Map(Object.entries(said));
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
