import { readFile } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { isUri } from '../../conf/values/is-uri.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { parseHadoopXml, type XmlProperty } from '../../hadoop/configuration/hadoop-xml.ts';
import { checkOptions } from '../../platform/check-options.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { carriedKey, isUnreadable } from './carried-key.ts';
import { type Draft, type DraftDocker, type DraftRole, yamlOf } from './draft.ts';
import { draftFiles, splitList, unlessEmpty } from './draft-files.ts';
import { commandOf, environmentOf, givenAssignments, TONY_ARGUMENTS, type TonyArguments } from './tony-arguments.ts';
import {
  FAIL_ON_WORKER_FAILURE,
  ignoresFailures,
  isSidecar,
  isStopping,
  isTracked,
  isUntracked,
  SIDECAR,
  successPolicyOf,
  UNTRACKED,
} from './tony-ending.ts';
import { frameworkOf, isHorovodDriver } from './tony-framework.ts';
import { carriedOrder, draftOrder, type Stages, stagesOf } from './tony-order.ts';
import { isTrue, memoryText, number, optionalMemory, positive } from './tony-values.ts';

interface Converted {
  readonly framework: FrameworkName | undefined;
  readonly successPolicy: 'ended' | undefined;
  readonly roles: readonly string[];
}

const VARIABLES: Readonly<Record<string, string>> = {
  pytorch: 'INIT_METHOD and WORLD: framework pytorch sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE',
  mxnet: "DMLC_*: tony-ts does not set MXNet's variables, but TONY_TASK_FILE names a file with the addresses of all tasks",
  tensorflow: 'TF_CONFIG: tony-ts sets it only with framework tensorflow',
};

/** Returns a sentence for each default of TonY that applies to this job and that differs in tony-ts. */
function defaultsThatDiffer(settings: ReadonlyMap<string, string>, { framework, successPolicy, roles }: Converted): string[] {
  const isUnset = (key: string): boolean => !settings.has(key);
  const chosen = settings.get('tony.application.framework')?.toLowerCase() ?? 'tensorflow';
  const tracked = roles.filter((role) => isTracked(settings, role));
  const differences: string[] = [];
  if (ignoresFailures(settings, roles)) {
    differences.push(
      successPolicy === 'ended'
        ? `Failed tasks: as in TonY, the job continues if a task other than the chief has failed for good (successPolicy: ended).`
        : `Failed tasks: TonY ignores the failure of a task other than the chief (${FAIL_ON_WORKER_FAILURE}). In tony-ts, the job fails if a task fails after all its restarts. Write successPolicy: ended to continue without such tasks.`,
    );
    if (!tracked.includes('chief') && !tracked.includes('worker')) {
      differences.push(
        `Chief: TonY fails this job only if all its tasks fail. In tony-ts, the failure of ${tracked[0] ?? roles[0]}:0 fails the job, because it is the chief.`,
      );
    }
  }
  if (roles.some((role) => !isStopping(settings, role))) {
    differences.push(
      'Restarts: TonY never restarts a single task. tony-ts restarts a failed task up to 3 times, and with it the tasks that train together (roles.ROLE.restart).',
    );
  }
  if (isUnset('tony.container.allocation.timeout')) {
    differences.push(
      'Waiting: TonY waits for containers without a limit, and keeps those that it has. tony-ts returns the containers of an incomplete job after gang.timeout (5m) and requests all of them again.',
    );
  }
  if (isUnset('tony.task.max-missed-heartbeats')) {
    differences.push('Heartbeats: TonY considers a task lost after 25 missed heartbeats, tony-ts after 10 (heartbeat.missed).');
  }
  if (isUnset('tony.am.memory')) {
    differences.push("ApplicationMaster: TonY's has 2 GiB, that of tony-ts 1 GiB (master.resources.memory).");
  }
  if (!isTrue(settings.get('tony.application.security.enabled'), true)) {
    differences.push('Security: tony-ts always authenticates the connections between its processes.');
  }
  differences.push('Access: TonY shows the logs of tasks to every user. In tony-ts, only you and the users in acls.view can read them.');
  const sets = chosen === (framework ?? 'tfjs') && chosen !== 'pytorch' ? undefined : VARIABLES[chosen];
  differences.push(
    `Variables: programs that read JOB_NAME, TASK_INDEX or other variables of TonY need those of tony-ts (docs/moving-from-tony.md).${sets === undefined ? '' : ` This includes ${sets}.`}`,
    'Site: TonY also reads tony-site.xml in TONY_CONF_DIR, which overrides tony.xml. import does not read that file: repeat its keys with --set.',
  );
  return differences;
}

/** Values that `-conf` of TonY's client adds to a list instead of replacing it. */
const LISTS: ReadonlySet<string> = new Set(['tony.containers.envs', 'tony.execution.envs', 'tony.containers.resources']);

interface TonySettings {
  readonly values: ReadonlyMap<string, string>;
  /** Sentences about values that contain variables such as `${user.name}`, by key. */
  readonly remarks: ReadonlyMap<string, string>;
}

function propertiesOf(xml: string, file: string): readonly XmlProperty[] {
  try {
    return parseHadoopXml(xml, file);
  } catch (error) {
    if (!(error instanceof TonyError)) {
      throw error;
    }
    throw new TonyError(error.code, error.message, {
      hint: 'Pass the configuration of a TonY job, an XML file such as tony.xml.',
      cause: error,
    });
  }
}

/**
 * Reads a TonY configuration and the values of TonY's `-conf` option, and substitutes variables as Hadoop does.
 * @throws TonyError HADOOP_CONF_INVALID, USAGE
 */
function readTonySettings(
  xml: string,
  file: string,
  overrides: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): TonySettings {
  const raw = new Map(propertiesOf(xml, file).map(({ name, value }) => [name, value.trim()]));
  for (const [key, value] of givenAssignments('--set', overrides, 'tony.worker.instances=4')) {
    const listed = LISTS.has(key) ? raw.get(key) : undefined;
    raw.set(key, listed === undefined ? value : `${listed},${value}`);
  }
  const configuration = HadoopConfiguration.fromProperties(Object.fromEntries(raw), environment);
  const values = new Map([...raw].map(([key, value]) => [key, configuration.get(key) ?? value]));
  const remarks = new Map<string, string>();
  for (const [key, value] of values) {
    const before = raw.get(key) ?? '';
    if (value.includes('${') && key.startsWith('tony.')) {
      remarks.set(key, 'Hadoop replaces the variable, but its value is not known here: write the value');
    } else if (value !== before) {
      remarks.set(key, `${before} is ${value} here`);
    }
  }
  return { values, remarks };
}

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
  /** Defaults of TonY that differ in tony-ts, one sentence each. */
  readonly differences: readonly string[];
  /** Mistakes in job.yaml that the user must correct before submitting the job. */
  readonly missing: readonly string[];
}

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

/**
 * Converts the text of a TonY 0.5 configuration. TonyConfigurationKeys and tony-default.xml in TonY define the keys.
 * @param environment environment variables that the configuration may refer to
 */
export function convertTony(
  xml: string,
  { file, settings: overrides = [], ...given }: TonyArguments & { readonly file: string },
  environment: Readonly<Record<string, string | undefined>> = process.env,
): ImportedJob {
  const { values, remarks } = readTonySettings(xml, file, overrides, environment);
  const settings = new Map(values);
  if (given.tensorboardLogDir !== undefined) {
    settings.set('tony.application.tensorboard-log-dir', given.tensorboardLogDir);
  }
  const named = namedRoles(settings);
  const command = commandOf(settings, given, named.length === 0);
  const roles = named.length === 0 ? [soleRole(command)] : named;
  const variables = environmentOf(settings, given);
  const draft = draftOf(settings, roles, command, { ...given, file, env: variables.env });
  const how = { settings, executes: given.executes, fromMaster: named.length === 0 };
  const keys = [...settings].map(([key, value]): ImportedKey => {
    const { to, remark } = carriedOrder(key, settings, draft.roles) ?? carriedKey(key, value, draft, how);
    const renamed = key === 'tony.application.name' && draft.name !== value ? `job.yaml accepts only some characters: ${draft.name}` : '';
    const all = [remark, remarks.get(key) ?? '', variables.remarks.get(key) ?? '', renamed];
    return { key, value, to, remark: all.filter((each) => each !== '').join('; ') };
  });
  const yaml = yamlOf(draft, file);
  const unreadable = [...settings].filter(([key, value]) => isUnreadable(key, value));
  return {
    yaml,
    keys,
    differences: defaultsThatDiffer(settings, {
      framework: draft.framework,
      successPolicy: draft.successPolicy,
      roles: Object.keys(draft.roles),
    }),
    missing: [
      ...missingOf(yaml, given.to ?? join(dirname(file), 'job.yaml')),
      ...unreadable.map(([key, value]) => `${key}  expected a whole number, found \`${value}\``),
    ],
  };
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
  given: TonyArguments & { readonly file: string; readonly env: Draft['env'] },
): Draft {
  const logdir = settings.get('tony.application.tensorboard-log-dir');
  // If the configuration sets a summary folder, the `tensorboard` key in job.yaml replaces TonY's TensorBoard role.
  const own = names.filter((name) => logdir === undefined || name !== SIDECAR);
  const stages = stagesOf(settings, own);
  const training = own.filter((name) => !stages.prepare.includes(name));
  const framework = frameworkOf(settings, training, [command, ...training.map((name) => settings.get(`tony.${name}.command`))]);
  const place = placeFrom(given.to);
  const roles = Object.fromEntries(own.map((name) => [name, draftRole(settings, name, { framework, stages, roles: own, place })]));
  const tags = splitList(settings.get('tony.application.tags') ?? '');
  const gang = positive(settings.get('tony.container.allocation.timeout'));
  const interval = positive(settings.get('tony.task.heartbeat-interval-ms'));
  const missed = positive(settings.get('tony.task.max-missed-heartbeats'));
  const startTimeout = positive(settings.get('tony.am.startup-timeout'));
  const timeout = positive(settings.get('tony.application.timeout'));
  return {
    name: jobName(settings.get('tony.application.name') ?? basename(given.file, '.xml')),
    queue: settings.get('tony.yarn.queue'),
    source: place(given.sourceFolder ?? settings.get('tony.src.dir')),
    framework,
    python: given.pythonVenv === undefined ? undefined : { archive: place(given.pythonVenv) },
    command,
    tags: tags.length === 0 ? undefined : tags,
    ...draftFiles(settings.get('tony.containers.resources'), place),
    env: given.env,
    roles,
    successPolicy: successPolicyOf(settings, framework, own),
    gang: { timeout: gang === undefined ? undefined : `${Math.max(1, Math.min(LONGEST_GANG_S, Math.ceil(gang / 1000)))}s` },
    heartbeat: {
      interval: interval === undefined ? undefined : `${Math.max(100, Math.min(60_000, interval))}ms`,
      missed: missed && Math.max(2, Math.min(1000, missed)),
    },
    tensorboard:
      logdir === undefined ? undefined : { logdir, resources: { memory: optionalMemory(settings.get('tony.tensorboard.memory')) } },
    timeout: timeout === undefined ? undefined : `${Math.ceil(timeout / 1000)}s`,
    master: {
      resources: { memory: optionalMemory(settings.get('tony.am.memory')), vcores: positive(settings.get('tony.am.vcores')) },
      nodeLabel: settings.get('tony.am.node-label') ?? settings.get('tony.application.node-label'),
      docker: draftDocker(settings, 'am'),
      startTimeout: startTimeout === undefined ? undefined : `${Math.ceil(startTimeout / 1000)}s`,
    },
  };
}

interface RoleContext {
  readonly framework: FrameworkName | undefined;
  readonly stages: Stages;
  readonly roles: readonly string[];
  readonly place: (path: string) => string;
}

function draftRole(settings: ReadonlyMap<string, string>, name: string, { framework, stages, roles, place }: RoleContext): DraftRole {
  const of = (key: string): string | undefined => settings.get(`tony.${name}.${key}`);
  const single = of('instances') === undefined;
  const resource = (key: string): string | undefined => (single ? settings.get(`tony.am.${key}`) : of(key));
  const sidecar = isSidecar(settings, name);
  const untracked = isUntracked(settings, name);
  const isPreparing = stages.prepare.includes(name);
  // TF_CONFIG contains the addresses of the parameter servers, so the parameter servers start together with the workers.
  const inCluster = framework === 'tensorflow' && name === UNTRACKED && untracked && !sidecar && !isPreparing;
  const timeout = positive(settings.get('tony.task.executor.execution-timeout-ms'));
  const order = draftOrder(settings, name, { roles, stages, isAwaited: (role) => isTracked(settings, role) });
  // Parameter servers do not end by themselves. As in TonY, they end when all tracked tasks have ended.
  const [first, ...others] = inCluster ? roles.filter((role) => isTracked(settings, role) && !stages.prepare.includes(role)) : [];
  const endWithOthers = first === undefined ? undefined : { role: others.length === 0 ? first : [first, ...others] };
  return {
    instances: number(of('instances')) ?? 1,
    resources: { memory: memoryText(resource('memory')), vcores: number(resource('vcores')) ?? 1, gpus: positive(resource('gpus')) },
    command: of('command'),
    ...unlessEmpty(draftFiles(of('resources'), place)),
    nodeLabel: of('node-label') ?? settings.get('tony.application.node-label'),
    docker: draftDocker(settings, name),
    kind: sidecar ? 'sidecar' : inCluster ? 'gang' : untracked ? 'service' : isPreparing ? 'independent' : undefined,
    restart: (isStopping(settings, name) || inCluster) && !sidecar ? { policy: 'never' } : undefined,
    timeout: timeout === undefined ? undefined : `${timeout}ms`,
    ...order,
    endAfter: order.endAfter ?? endWithOthers,
  };
}

/** TonY resolves relative paths against the current folder, but job.yaml against its own folder. */
function placeFrom(jobFile: string | undefined): { (path: string): string; (path: string | undefined): string | undefined } {
  const folder = dirname(resolve(jobFile ?? 'job.yaml'));
  const place = (path: string | undefined) =>
    path === undefined || isUri(path) || isAbsolute(path) || path.startsWith('~') || folder === process.cwd()
      ? path
      : relative(folder, resolve(path)) || '.';
  return place as ReturnType<typeof placeFrom>;
}

/** @param name role name, or `am` for the ApplicationMaster */
function draftDocker(settings: ReadonlyMap<string, string>, name: string): DraftDocker | undefined {
  const image = settings.get(`tony.docker.${name}.image`) ?? settings.get('tony.docker.containers.image');
  if (!isTrue(settings.get('tony.docker.enabled')) || image === undefined) {
    return undefined;
  }
  const mounts = splitList(settings.get('tony.docker.containers.mount') ?? '');
  return { image, mounts: mounts.length === 0 ? undefined : mounts };
}

function missingOf(yaml: string, file: string): string[] {
  try {
    parseJob(yaml, { file: basename(file), folder: dirname(resolve(file)) });
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
