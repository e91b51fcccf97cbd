import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { Document, isCollection, visit } from 'yaml';
import { parseJob } from '../../conf/resolve/load-job.ts';
import type { Framework } from '../../conf/values/frameworks.ts';
import { parseHadoopXml } from '../../hadoop/configuration/hadoop-xml.ts';
import { checkOptions } from '../../platform/check-options.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { draftFiles, splitList, unlessEmpty } from './draft-files.ts';
import { commandOf, environmentOf, givenAssignments, TONY_ARGUMENTS, type TonyArguments } from './tony-arguments.ts';
import { frameworkOf, isHorovodDriver } from './tony-framework.ts';
import { APPLICATION_KEYS, type Carrying, NO_DRIVER, OTHER_KEYS, ROLE_KEYS } from './tony-keys.ts';
import { carriedOrder, type DraftOrder, draftOrder, type Stages, stagesOf } from './tony-order.ts';
import { memoryText, number, optionalMemory, positive } from './tony-values.ts';

export interface ImportedKey {
  readonly key: string;
  readonly value: string;
  /** Corresponding key in job.yaml, or null if there is none. */
  readonly to: string | null;
  /** Reason why the key was not converted, or an explanation of how its meaning differs in job.yaml. Empty if neither applies. */
  readonly remark: string;
}

export interface ImportedJob {
  readonly yaml: string;
  readonly keys: readonly ImportedKey[];
  /** Mistakes in job.yaml that the user must correct before submitting the job. */
  readonly missing: readonly string[];
}

/** Content of job.yaml, with the keys in the order in which they are written. `yamlOf` omits undefined and empty values. */
interface Draft {
  readonly name: string;
  readonly queue: string | undefined;
  readonly source: string | undefined;
  readonly framework: Framework | undefined;
  readonly python: { readonly archive: string } | undefined;
  readonly command: string | undefined;
  readonly tags: readonly string[] | undefined;
  readonly files: Readonly<Record<string, string>>;
  readonly archives: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly roles: Readonly<Record<string, DraftRole>>;
  readonly success: 'chief' | undefined;
  readonly gang: { readonly timeout: string | undefined };
  readonly heartbeat: { readonly interval: string | undefined; readonly missed: number | undefined };
  readonly tensorboard: { readonly logdir: string; readonly memory: string | undefined } | undefined;
  readonly timeout: string | undefined;
  readonly master: {
    readonly memory: string | undefined;
    readonly vcores: number | undefined;
    readonly nodeLabel: string | undefined;
    readonly docker: DraftDocker | undefined;
    readonly startTimeout: string | undefined;
  };
}

interface DraftDocker {
  readonly image: string;
  readonly mounts: readonly string[] | undefined;
}

interface DraftRole extends DraftOrder {
  readonly instances: number;
  readonly resources: { readonly memory: string; readonly vcores: number; readonly gpus: number | undefined };
  readonly command: string | undefined;
  readonly files: Readonly<Record<string, string>> | undefined;
  readonly archives: Readonly<Record<string, string>> | undefined;
  readonly nodeLabel: string | undefined;
  readonly docker: DraftDocker | undefined;
  readonly untracked: true | undefined;
  readonly ranked: boolean | undefined;
  readonly sidecar: true | undefined;
  readonly restart: { readonly policy: 'never' } | undefined;
  readonly timeLimit: string | undefined;
}

/** Defaults of TonY. */
const UNTRACKED = 'ps';
const SIDECAR = 'tensorboard';
const STOPPING = 'ps';
const LONGEST_GANG_S = 570;

/**
 * Reads the configuration of a TonY job.
 * @throws TonyError JOB_UNREADABLE, HADOOP_CONF_INVALID (not a Hadoop XML file), USAGE (a setting is not an assignment), JOB_INVALID (no
 *   role has tasks)
 */
export async function importTony(file: string, given: TonyArguments = {}): Promise<ImportedJob> {
  checkOptions('importTony', given, TONY_ARGUMENTS);
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new TonyError('JOB_UNREADABLE', `Cannot read the TonY configuration ${file}: ${fileErrorOf(error)}.`, {
      hint: 'Check the path.',
      cause: error,
    });
  });
  return convertTony(text, { ...given, file });
}

/** Converts the text of a TonY 0.5 configuration. TonyConfigurationKeys and tony-default.xml in TonY define the keys. */
export function convertTony(
  xml: string,
  { file, settings: overrides = [], ...given }: TonyArguments & { readonly file: string },
): ImportedJob {
  const settings = new Map(parseHadoopXml(xml, file).map(({ name, value }) => [name, value.trim()]));
  for (const [key, value] of givenAssignments('--set', overrides, 'tony.worker.instances=4')) {
    settings.set(key, value);
  }
  if (given.tensorboardLogDir !== undefined) {
    settings.set('tony.application.tensorboard-log-dir', given.tensorboardLogDir);
  }
  const named = namedRoles(settings);
  const command = commandOf(settings, given, named.length === 0);
  const roles = named.length === 0 ? [soleRole(command)] : named;
  const draft = draftOf(settings, roles, command, given, file);
  const how = { settings, executes: given.executes, fromMaster: named.length === 0 };
  const keys = [...settings].map(([key, value]) => ({
    key,
    value,
    ...(carriedOrder(key, settings, draft.roles) ?? carried(key, value, draft, how)),
  }));
  const yaml = yamlOf(draft, file);
  return { yaml, keys, missing: missingOf(yaml, dirname(resolve(file))) };
}

/** Returns the roles that have tasks, in the order in which the configuration lists them. TonY's role names are in lower case. */
function namedRoles(settings: ReadonlyMap<string, string>): string[] {
  return [...settings].flatMap(([key, value]) => {
    const [, role] = /^tony\.([a-z]+)\.instances$/.exec(key) ?? [];
    return role !== undefined && positive(value) !== undefined && !isHorovodDriver(settings, role) ? [role] : [];
  });
}

/** Returns the role for the command of a job without tasks. TonY runs this command in its ApplicationMaster. */
function soleRole(command: string | undefined): string {
  if (command === undefined) {
    throw new TonyError('JOB_INVALID', 'The TonY configuration starts no tasks: no tony.ROLE.instances is greater than 0.', {
      hint: 'Set the number of tasks, for example --set tony.worker.instances=2.',
    });
  }
  return 'worker';
}

function draftOf(
  settings: ReadonlyMap<string, string>,
  names: readonly string[],
  command: string | undefined,
  given: TonyArguments,
  file: string,
): Draft {
  const logdir = settings.get('tony.application.tensorboard-log-dir');
  // If the configuration sets a summary folder, the `tensorboard` key in job.yaml replaces TonY's TensorBoard role.
  const own = names.filter((name) => logdir === undefined || name !== SIDECAR);
  const stages = stagesOf(settings, own);
  const training = own.filter((name) => !stages.prepare.includes(name));
  const framework = frameworkOf(settings, training, [command, ...training.map((name) => settings.get(`tony.${name}.command`))]);
  const roles = Object.fromEntries(own.map((name) => [name, draftRole(settings, name, { framework, stages, roles: own })]));
  // TensorFlow's parameter servers do not end by themselves, so the job must end when its chief ends.
  const endsWithChief = Object.values(roles).some(({ ranked }) => ranked === true);
  const tags = splitList(settings.get('tony.application.tags') ?? '');
  const gang = positive(settings.get('tony.container.allocation.timeout'));
  const interval = positive(settings.get('tony.task.heartbeat-interval-ms'));
  const missed = positive(settings.get('tony.task.max-missed-heartbeats'));
  const startTimeout = positive(settings.get('tony.am.startup-timeout'));
  const timeout = positive(settings.get('tony.application.timeout'));
  return {
    name: jobName(settings.get('tony.application.name') ?? basename(file, '.xml')),
    queue: settings.get('tony.yarn.queue'),
    source: given.sourceFolder ?? settings.get('tony.src.dir'),
    framework,
    python: given.pythonVenv === undefined ? undefined : { archive: given.pythonVenv },
    command,
    tags: tags.length === 0 ? undefined : tags,
    ...draftFiles(settings.get('tony.containers.resources')),
    env: environmentOf(settings, given),
    roles,
    success: endsWithChief || settings.get('tony.application.fail-on-worker-failure-enabled') === 'false' ? 'chief' : undefined,
    gang: { timeout: gang === undefined ? undefined : `${Math.max(1, Math.min(LONGEST_GANG_S, Math.ceil(gang / 1000)))}s` },
    heartbeat: {
      interval: interval === undefined ? undefined : `${Math.max(100, Math.min(60_000, interval))}ms`,
      missed: missed && Math.max(2, Math.min(1000, missed)),
    },
    tensorboard: logdir === undefined ? undefined : { logdir, memory: optionalMemory(settings.get('tony.tensorboard.memory')) },
    timeout: timeout === undefined ? undefined : `${Math.ceil(timeout / 1000)}s`,
    master: {
      memory: optionalMemory(settings.get('tony.am.memory')),
      vcores: positive(settings.get('tony.am.vcores')),
      nodeLabel: settings.get('tony.am.node-label') ?? settings.get('tony.application.node-label'),
      docker: draftDocker(settings, 'am'),
      startTimeout: startTimeout === undefined ? undefined : `${Math.ceil(startTimeout / 1000)}s`,
    },
  };
}

function draftRole(
  settings: ReadonlyMap<string, string>,
  name: string,
  { framework, stages, roles }: { readonly framework: Framework | undefined; readonly stages: Stages; readonly roles: readonly string[] },
): DraftRole {
  const of = (key: string): string | undefined => settings.get(`tony.${name}.${key}`);
  const isNamed = (key: string, fallback: string, role = name): boolean => splitList(settings.get(key) ?? fallback).includes(role);
  const single = of('instances') === undefined;
  const resource = (key: string): string | undefined => (single ? settings.get(`tony.am.${key}`) : of(key));
  const isSidecar = (role: string) => isNamed('tony.application.sidecar.jobtypes', SIDECAR, role);
  const isUntracked = (role: string) => isNamed('tony.application.untracked.jobtypes', UNTRACKED, role);
  const sidecar = isSidecar(name);
  const untracked = isUntracked(name);
  const isPreparing = stages.prepare.includes(name);
  // TF_CONFIG contains the addresses of the parameter servers, so the parameter servers start together with the workers.
  const inCluster = framework === 'tensorflow' && name === UNTRACKED && !isPreparing;
  const timeLimit = positive(settings.get('tony.task.executor.execution-timeout-ms'));
  const stopping = isNamed('tony.application.stop-on-failure-jobtypes', STOPPING);
  return {
    instances: number(of('instances')) ?? 1,
    resources: { memory: memoryText(resource('memory')), vcores: number(resource('vcores')) ?? 1, gpus: positive(resource('gpus')) },
    command: of('command'),
    ...unlessEmpty(draftFiles(of('resources'))),
    nodeLabel: of('node-label') ?? settings.get('tony.application.node-label'),
    docker: draftDocker(settings, name),
    untracked: (untracked && !sidecar && !inCluster) || undefined,
    ranked: inCluster || (isPreparing && !sidecar && !untracked ? false : undefined),
    sidecar: sidecar || undefined,
    restart: stopping && !sidecar ? { policy: 'never' } : undefined,
    timeLimit: timeLimit === undefined ? undefined : `${timeLimit}ms`,
    ...draftOrder(settings, name, { roles, stages, isAwaited: (role) => !isSidecar(role) && !isUntracked(role) }),
  };
}

/** @param name role name, or `am` for the ApplicationMaster */
function draftDocker(settings: ReadonlyMap<string, string>, name: string): DraftDocker | undefined {
  const image = settings.get(`tony.docker.${name}.image`) ?? settings.get('tony.docker.containers.image');
  if (settings.get('tony.docker.enabled') !== 'true' || image === undefined) {
    return undefined;
  }
  const mounts = splitList(settings.get('tony.docker.containers.mount') ?? '');
  return { image, mounts: mounts.length === 0 ? undefined : mounts };
}

const UNKNOWN: Carrying = { to: null, remark: 'not a key of TonY 0.5' };
const DEFAULT_VALUE: Carrying = { to: null, remark: 'this is the default' };

/** Returns the key in job.yaml that corresponds to a TonY key. `to` is null if job.yaml does not contain the value. */
function carried(
  key: string,
  value: string,
  draft: Draft,
  how: { readonly settings: ReadonlyMap<string, string>; readonly executes: string | undefined; readonly fromMaster: boolean },
): Carrying {
  const { settings, executes, fromMaster } = how;
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
    return equivalent.to === null || contains(draft, equivalent.to) ? equivalent : DEFAULT_VALUE;
  }
  const [, role, rest = ''] = /^tony\.([a-z]+)\.(.+)$/.exec(key) ?? [];
  if (role !== undefined && Object.hasOwn(ROLE_KEYS, rest)) {
    const ofRole = ROLE_KEYS[rest] ?? UNKNOWN;
    if (role === SIDECAR && draft.tensorboard !== undefined) {
      return rest === 'memory'
        ? { to: 'tensorboard.memory', remark: '' }
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
    return contains(draft, to) ? { ...ofRole, to } : DEFAULT_VALUE;
  }
  const [, imageOf] = /^tony\.docker\.([a-z]+)\.image$/.exec(key) ?? [];
  if (imageOf !== undefined) {
    const to = imageOf === 'am' ? 'master.docker' : `roles.${imageOf}.docker`;
    return contains(draft, to) ? { to, remark: '' } : DEFAULT_VALUE;
  }
  const other = OTHER_KEYS.find(({ pattern }) => pattern.test(key));
  if (other !== undefined) {
    return { to: null, remark: other.remark };
  }
  return key.startsWith('tony.')
    ? UNKNOWN
    : { to: null, remark: "a Hadoop setting, not a TonY key; tony-ts reads Hadoop's settings from HADOOP_CONF_DIR" };
}

/** Returns true if the draft contains any of the comma-separated keys. `roles.*.nodeLabel` matches every role. */
function contains(draft: Draft, places: string): boolean {
  const below = (value: unknown, keys: readonly string[]): boolean => {
    const [key, ...rest] = keys;
    if (key === undefined) {
      return value !== undefined && !isEmpty(value);
    }
    if (typeof value !== 'object' || value === null) {
      return false;
    }
    const entries = key === '*' ? Object.values(value) : Object.hasOwn(value, key) ? [(value as Record<string, unknown>)[key]] : [];
    return entries.some((entry) => below(entry, rest));
  };
  return places.split(', ').some((place) => place === 'framework' || below(draft, place.split('.')));
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

const ON_ONE_LINE = new Set([
  'python',
  'resources',
  'restart',
  'after',
  'endAfter',
  'tags',
  'gang',
  'heartbeat',
  'tensorboard',
  'master',
  'docker',
]);

function yamlOf(draft: Draft, file: string): string {
  // `JSON.stringify` removes undefined values.
  const entries = Object.entries(JSON.parse(JSON.stringify(draft)) as object).filter(
    ([, value]: [string, unknown]) => !(typeof value === 'object' && value !== null && Object.keys(value).length === 0),
  );
  const document = new Document(Object.fromEntries(entries));
  document.commentBefore = ` Converted from TonY's ${basename(file)}. tony-ts config explain KEY describes a key.`;
  visit(document, {
    Pair: (_, { key, value }) => {
      if (isCollection(value) && ON_ONE_LINE.has(String(key))) {
        value.flow = true;
      }
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function missingOf(yaml: string, folder: string): string[] {
  try {
    parseJob(yaml, { file: 'job.yaml', folder });
    return [];
  } catch (error) {
    if (!(error instanceof TonyError)) {
      throw error;
    }
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.trim());
  }
}

function jobName(name: string): string {
  return (
    name
      .replace(/[^\w .:@+-]+/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 200) || 'job'
  );
}
