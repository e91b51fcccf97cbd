import { isRecord } from '../platform/is-record.ts';
import { EVERY_ROLE } from './job-part.ts';

type Mapping = Readonly<Record<string, unknown>>;

/**
 * Merges the `defaults` of a site file into the content of job.yaml, whose values take precedence. It does not validate: a value that is
 * not a mapping as expected stays unchanged, so that the validation reports it.
 */
export function withDefaults(given: unknown, defaults: Mapping): unknown {
  if (!isRecord(given)) {
    return given;
  }
  const { roles, tensorboard, ...rest } = defaults;
  const filled = filledUp(given, rest);
  return {
    ...filled,
    ...(isRecord(given.roles) && isRecord(roles) && { roles: rolesWithDefaults(given.roles, roles, given.env) }),
    ...withTensorBoardDefaults(given.tensorboard, tensorboard),
  };
}

/** Returns the defaults of one role; an entry with the role's name takes precedence over "*". */
function defaultsOfRole(roles: Mapping, name: string): Mapping {
  return filledUp(ownMapping(roles, name), ownMapping(roles, EVERY_ROLE));
}

function rolesWithDefaults(given: Mapping, defaults: Mapping, jobEnvironment: unknown): Mapping {
  const jobVariables = isRecord(jobEnvironment) ? jobEnvironment : {};
  return Object.fromEntries(
    Object.entries(given).map(([name, role]) => {
      if (!isRecord(role)) {
        return [name, role];
      }
      const { env, ...rest } = defaultsOfRole(defaults, name);
      // A role's variable overrides the job's variable of the same name, but a default for the role must not.
      const unset = Object.entries(isRecord(env) ? env : {}).filter(([variable]) => !Object.hasOwn(jobVariables, variable));
      return [name, filledUp(role, unset.length === 0 ? rest : { ...rest, env: Object.fromEntries(unset) })];
    }),
  );
}

/** Applies the defaults only if job.yaml sets `tensorboard` to `true` or to a mapping. */
function withTensorBoardDefaults(given: unknown, defaults: unknown): Mapping {
  if (!isRecord(defaults)) {
    return {};
  }
  if (given === true) {
    return { tensorboard: defaults };
  }
  return isRecord(given) ? { tensorboard: filledUp(given, defaults) } : {};
}

/** Adds the missing keys of `fill`; merges nested mappings in the same way. */
function filledUp(given: Mapping, fill: Mapping): Mapping {
  const filled = new Map(Object.entries(given));
  for (const [key, value] of Object.entries(fill)) {
    const own = filled.get(key);
    if (own === undefined) {
      filled.set(key, value);
    } else if (isRecord(own) && isRecord(value)) {
      filled.set(key, filledUp(own, value));
    }
  }
  return Object.fromEntries(filled);
}

function ownMapping(mapping: Mapping, key: string): Mapping {
  const value = Object.hasOwn(mapping, key) ? mapping[key] : undefined;
  return isRecord(value) ? value : {};
}
