import { EVERY_ROLE } from './job-part.ts';

/*
 * What a site file's `defaults` make of a job.yaml, both as they are written: what the job says stays as it is.
 */

type Mapping = Readonly<Record<string, unknown>>;

/** @param said what job.yaml holds, well-formed or not: what is no mapping where one belongs stays as it is, for its reader to complain of. */
export function withDefaults(said: unknown, defaults: Mapping): unknown {
  if (!isMapping(said)) return said;
  const { roles, tensorboard, ...rest } = defaults;
  const filled = filledUp(said, rest);
  return {
    ...filled,
    ...(isMapping(said.roles) && isMapping(roles) && { roles: rolesWithDefaults(said.roles, roles, said.env) }),
    ...withTensorBoardDefaults(said.tensorboard, tensorboard),
  };
}

/** What defaults say of one role; the role's own name counts more than "*". */
function defaultsOfRole(roles: Mapping, name: string): Mapping {
  return filledUp(ownMapping(roles, name), ownMapping(roles, EVERY_ROLE));
}

function rolesWithDefaults(said: Mapping, defaults: Mapping, jobEnvironment: unknown): Mapping {
  const saidOfAll = isMapping(jobEnvironment) ? jobEnvironment : {};
  return Object.fromEntries(
    Object.entries(said).map(([name, role]) => {
      if (!isMapping(role)) return [name, role];
      const { env, ...rest } = defaultsOfRole(defaults, name);
      // A role's variable would win over the one that the job says for all its roles.
      const unsaid = Object.entries(isMapping(env) ? env : {}).filter(([variable]) => !Object.hasOwn(saidOfAll, variable));
      return [name, filledUp(role, unsaid.length === 0 ? rest : { ...rest, env: Object.fromEntries(unsaid) })];
    }),
  );
}

/** Only for a job that brings one, which `true` says as well as a mapping. */
function withTensorBoardDefaults(said: unknown, defaults: unknown): Mapping {
  if (!isMapping(defaults)) return {};
  if (said === true) return { tensorboard: defaults };
  return isMapping(said) ? { tensorboard: filledUp(said, defaults) } : {};
}

/** Mappings are filled up key by key; anything else is one value. */
function filledUp(said: Mapping, fill: Mapping): Mapping {
  const filled = new Map(Object.entries(said));
  for (const [key, value] of Object.entries(fill)) {
    const own = filled.get(key);
    if (own === undefined) filled.set(key, value);
    else if (isMapping(own) && isMapping(value)) filled.set(key, filledUp(own, value));
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
