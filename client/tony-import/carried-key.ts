import type { Draft } from './draft.ts';
import { splitList } from './draft-files.ts';
import { FAIL_ON_WORKER_FAILURE, SIDECAR } from './tony-ending.ts';
import { isHorovodDriver } from './tony-framework.ts';
import { APPLICATION_KEYS, type Carrying, NO_DRIVER, OTHER_KEYS, ROLE_KEYS } from './tony-keys.ts';
import { isTrue, isWhole } from './tony-values.ts';

const UNKNOWN: Carrying = { to: null, remark: 'not a key of TonY 0.5' };
const DEFAULT_VALUE: Carrying = { to: null, remark: 'this is the default' };
const NOT_WHOLE = 'not a whole number, which TonY rejects; job.yaml contains its default';
const NUMBERS = ['instances', 'vcores', 'gpus', 'retry-count', 'max-missed-heartbeats', 'timeout', 'timeout-ms', 'interval-ms'];
const BOOLEANS: ReadonlySet<string> = new Set(['tony.docker.enabled', FAIL_ON_WORKER_FAILURE]);

/** Returns true if TonY needs a number for this key and cannot read the value. */
export function isUnreadable(key: string, value: string): boolean {
  return key.startsWith('tony.') && NUMBERS.some((name) => key.endsWith(`.${name}`) || key.endsWith(`-${name}`)) && !isWhole(value);
}

interface Conversion {
  readonly settings: ReadonlyMap<string, string>;
  readonly executes: string | undefined;
  /** Whether TonY runs the command in its ApplicationMaster. */
  readonly fromMaster: boolean;
}

/** Returns the key in job.yaml that corresponds to a TonY key. `to` is null if job.yaml does not contain the value. */
export function carriedKey(key: string, value: string, draft: Draft, how: Conversion): Carrying {
  const { settings, executes, fromMaster } = how;
  if (isUnreadable(key, value)) {
    return { to: null, remark: NOT_WHOLE };
  }
  if (Object.hasOwn(APPLICATION_KEYS, key)) {
    const known = APPLICATION_KEYS[key];
    const equivalent = typeof known === 'function' ? known(value) : (known ?? UNKNOWN);
    if (key === 'tony.containers.command' && executes !== undefined) {
      return { to: null, remark: 'overridden by --executes' };
    }
    if (key === 'tony.application.framework' && draft.framework === value.toLowerCase()) {
      return { ...equivalent, remark: '' };
    }
    if (key === 'tony.am.command' && draft.command !== value) {
      return { to: null, remark: 'not used, because the job has another command or has roles with tasks' };
    }
    if (key.startsWith('tony.am.') && fromMaster && equivalent.to !== 'command') {
      const resource = key.slice('tony.am.'.length);
      if (['memory', 'vcores', 'gpus'].includes(resource)) {
        return { to: `roles.worker.resources.${resource}`, remark: '' };
      }
    }
    return equivalent.to === null || contains(draft, equivalent.to) ? equivalent : unused(key, value, how);
  }
  const [, role, rest = ''] = /^tony\.([a-z]+)\.(.+)$/.exec(key) ?? [];
  if (role !== undefined && Object.hasOwn(ROLE_KEYS, rest)) {
    const ofRole = ROLE_KEYS[rest] ?? UNKNOWN;
    if (role === SIDECAR && draft.tensorboard !== undefined) {
      return rest === 'memory'
        ? { to: 'tensorboard.resources.memory', remark: '' }
        : { to: null, remark: 'TensorBoard always runs in its own container' };
    }
    if (isHorovodDriver(settings, role)) {
      return { to: null, remark: NO_DRIVER };
    }
    if (draft.roles[role] === undefined) {
      return { to: null, remark: `role ${role} has no tasks` };
    }
    if (ofRole.to === null) {
      return ofRole;
    }
    const to = ofRole.to
      .split(', ')
      .map((place) => `roles.${role}.${place}`)
      .join(', ');
    return contains(draft, to) ? { ...ofRole, to } : unused(key, value, how);
  }
  const [, imageOf] = /^tony\.docker\.([a-z]+)\.image$/.exec(key) ?? [];
  if (imageOf !== undefined) {
    const to = imageOf === 'am' ? 'master.docker' : `roles.${imageOf}.docker`;
    return contains(draft, to) ? { to, remark: '' } : unused(key, value, how);
  }
  const other = OTHER_KEYS.find(({ pattern }) => pattern.test(key));
  if (other !== undefined) {
    return { to: null, remark: other.remark };
  }
  return key.startsWith('tony.')
    ? UNKNOWN
    : { to: null, remark: "a Hadoop setting, not a TonY key; tony-ts reads Hadoop's settings from HADOOP_CONF_DIR" };
}

/** Returns why job.yaml does not contain the value. */
function unused(key: string, value: string, { settings }: Conversion): Carrying {
  const because = (remark: string): Carrying => ({ to: null, remark });
  if (value === '') {
    return because('empty');
  }
  if (BOOLEANS.has(key) && !/^(true|false)$/i.test(value)) {
    return because('neither true nor false, so TonY uses its default, which is false');
  }
  if (key.startsWith('tony.docker.') && (key !== 'tony.docker.enabled' || isTrue(value))) {
    return because(
      isTrue(settings.get('tony.docker.enabled'))
        ? 'no image is set for these containers, so TonY does not run them in Docker'
        : 'not used, because tony.docker.enabled is not true',
    );
  }
  if (key === FAIL_ON_WORKER_FAILURE) {
    return because('successPolicy is all: the tasks train together, or TonY waits for only one task');
  }
  if (/(jobtypes|-stage)$/.test(key)) {
    return because(
      splitList(value).includes('ps')
        ? "TensorFlow's parameter servers have ranks, and end when the other roles have ended (endAfter)"
        : 'the job has no tasks of these roles',
    );
  }
  return DEFAULT_VALUE;
}

/** Returns true if the draft contains any of the comma-separated keys. `roles.*.nodeLabel` matches every role. A place may end with a value. */
function contains(draft: Draft, places: string): boolean {
  const below = (value: unknown, keys: readonly string[], expected?: string): boolean => {
    const [key, ...rest] = keys;
    if (key === undefined) {
      return expected === undefined ? value !== undefined && !isEmpty(value) : value === expected;
    }
    if (typeof value !== 'object' || value === null) {
      return false;
    }
    const entries = key === '*' ? Object.values(value) : Object.hasOwn(value, key) ? [(value as Record<string, unknown>)[key]] : [];
    return entries.some((entry) => below(entry, rest, expected));
  };
  return places.split(', ').some((place) => {
    const [key = '', expected] = place.split(': ');
    return place === 'framework' || below(draft, key.split('.'), expected);
  });
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
