import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { importLines } from './import-lines.ts';
import { convertTony } from './import-tony.ts';
import type { TonyArguments } from './tony-arguments.ts';

const xml = (properties: Readonly<Record<string, string>>): string =>
  `<?xml version="1.0"?>\n<configuration>\n${Object.entries(properties)
    .map(
      ([name, value]) =>
        `  <property><name>${name}</name><value>${value.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</value></property>`,
    )
    .join('\n')}\n</configuration>\n`;

const convert = (properties: Readonly<Record<string, string>>, given: TonyArguments = {}) =>
  convertTony(xml(properties), { file: 'tony.xml', ...given });
const jobOf = (yaml: string) => parseJob(yaml, { file: 'job.yaml', folder: '/' });

const MNIST = {
  'tony.application.name': 'mnist (ps)',
  'tony.application.security.enabled': 'false',
  'tony.yarn.queue': 'research',
  'tony.worker.instances': '4',
  'tony.worker.memory': '4g',
  'tony.worker.gpus': '1',
  'tony.ps.instances': '2',
  'tony.ps.memory': '3072',
  'tony.am.memory': '1g',
  'tony.task.heartbeat-interval-ms': '500',
  'tony.application.timeout': '7200000',
  'tony.execution.envs': 'DATA=hdfs:///data/mnist,EPOCHS=3',
  'tony.application.tensorboard-log-dir': 'hdfs:///logs/mnist',
  'tony.docker.enabled': 'true',
  'tony.task.max-total-gpus': '8',
  'fs.defaultFS': 'hdfs://nn:8020',
  'tony.wroker.memory': '2g',
};

test('converts a TonY configuration to a job.yaml that parseJob accepts', () => {
  const { yaml, missing } = convert(MNIST, { executes: 'train.ts', python: 'node', taskParams: '--rate 0.1', sourceFolder: 'src' });
  expect(yaml).toBe(`# Converted from TonY's tony.xml. tony-ts explain KEY describes a key.

name: mnist -ps-
queue: research
source: src
command: node train.ts --rate 0.1
env:
  DATA: hdfs:///data/mnist
  EPOCHS: "3"
roles:
  worker:
    instances: 4
    resources: {memory: 4g, vcores: 1, gpus: 1}
  ps:
    instances: 2
    resources: {memory: 3072m, vcores: 1}
    kind: service
    restart: {policy: never}
heartbeat: {interval: 500ms}
tensorboard: {logdir: hdfs:///logs/mnist}
timeout: 7200s
master: {resources: {memory: 1g}}
`);
  expect(missing).toEqual([]);
  expect(jobOf(yaml)).toMatchObject({ framework: 'tfjs', timeoutMs: 7_200_000, roles: [{ instances: 4 }, { kind: 'service' }] });
});

test('reports the equivalent of each key in job.yaml, or why it has none', () => {
  const { keys } = convert(MNIST);
  expect(keys.map(({ key }) => key)).toEqual(Object.keys(MNIST));
  const of = (name: string) => keys.find(({ key }) => key === name);
  expect(of('tony.worker.memory')).toMatchObject({ to: 'roles.worker.resources.memory', value: '4g' });
  expect(of('tony.docker.enabled')).toMatchObject({ to: null });
  expect(of('tony.task.max-total-gpus')).toMatchObject({ to: null, remark: expect.stringContaining('tony-site.yaml') });
  expect(of('fs.defaultFS')).toMatchObject({ to: null, remark: expect.stringContaining('HADOOP_CONF_DIR') });
  expect(of('tony.wroker.memory')).toMatchObject({ to: null, remark: 'role wroker has no tasks' });
});

test('converts Docker images of all containers, of one role and of the ApplicationMaster', () => {
  const { yaml, keys } = convert({
    'tony.worker.instances': '1',
    'tony.ps.instances': '1',
    'tony.containers.command': 'python3 train.py',
    'tony.docker.enabled': 'true',
    'tony.docker.containers.image': 'ml/base:1',
    'tony.docker.containers.mount': '/data:/data:ro,/tmp:/tmp:rw',
    'tony.docker.worker.image': 'ml/cuda:1',
    'tony.am.startup-timeout': '90000',
  });
  const mounts = ['/data:/data:ro', '/tmp:/tmp:rw'];
  const base = { image: 'ml/base:1', mounts, network: null };
  expect(jobOf(yaml)).toMatchObject({
    roles: [{ docker: { ...base, image: 'ml/cuda:1' } }, { docker: base }],
    master: { docker: base, startTimeoutMs: 90_000 },
  });
  expect(keys.slice(3).map(({ to }) => to)).toEqual([
    ...Array(3).fill('roles.*.docker, master.docker'),
    'roles.worker.docker',
    'master.startTimeout',
  ]);
});

test('converts resources of all containers and of one role to files and archives', () => {
  const { yaml, keys } = convert({
    'tony.worker.instances': '1',
    'tony.ps.instances': '1',
    'tony.containers.command': 'python3 train.py',
    'tony.containers.resources': 'hdfs:///shared/vocab.txt, conf/model.json::model.conf,libs.zip#archive',
    'tony.worker.resources': 'data.tar.gz::data#archive',
    'tony.ps.resources': '',
  });
  const { files, roles } = jobOf(yaml);
  expect([...files, ...roles.flatMap((role) => role.files)].map(({ name, type, path }) => [name, type, path])).toEqual([
    ['vocab.txt', 'file', 'hdfs:///shared/vocab.txt'],
    ['model.conf', 'file', '/conf/model.json'],
    ['libs.zip', 'archive', '/libs.zip'],
    ['data', 'archive', '/data.tar.gz'],
  ]);
  expect(keys.slice(3).map(({ to }) => to)).toEqual(['files, archives', 'roles.worker.files, roles.worker.archives', null]);
});

test.each([
  ['PyTorch', 'python train.py', ['worker'], 'pytorch'],
  ['tensorflow', 'train.sh', ['chief', 'worker', 'ps', 'evaluator', 'tensorboard'], 'tensorflow'],
  // TonY's default is TensorFlow.
  [undefined, 'python train.py', ['worker'], 'tensorflow'],
  [undefined, './train', ['worker'], 'none'],
  ['tensorflow', 'python notebook.py', ['notebook'], 'none'],
  ['HOROVOD', 'python train.py', ['worker'], 'horovod'],
  ['mxnet', 'python train.py', ['worker'], 'none'],
  ['tensorflow', 'node train.ts', ['worker'], 'tfjs'],
])('converts the framework %s of a job that runs %s with the roles %s to %s', (framework, command, roles, converted) => {
  const { yaml, missing, keys } = convert({
    ...(framework !== undefined && { 'tony.application.framework': framework }),
    'tony.containers.command': command,
    ...Object.fromEntries(roles.map((name) => [`tony.${name}.instances`, '1'])),
  });
  expect(missing).toEqual([]);
  expect(jobOf(yaml).framework).toBe(converted);
  const remark = framework?.toLowerCase() === converted ? '' : expect.stringContaining('TONY_TASK_FILE');
  expect(keys.filter(({ key }) => key.endsWith('framework'))).toEqual(
    framework === undefined ? [] : [{ key: 'tony.application.framework', value: framework, to: 'framework', remark }],
  );
});

test("drops the task that runs Horovod's rendezvous in TonY", () => {
  const { yaml, missing, keys } = convert({
    'tony.application.framework': 'horovod',
    'tony.containers.command': 'python train.py',
    'tony.worker.instances': '2',
    'tony.driver.instances': '1',
    'tony.driver.command': 'python horovod_debug_driver.py',
    'tony.horovod.driver.mode.debug': 'true',
    'tony.application.untracked.jobtypes': 'driver',
  });
  expect(missing).toEqual([]);
  expect(jobOf(yaml)).toMatchObject({ framework: 'horovod', roles: [{ name: 'worker', instances: 2, kind: 'gang' }] });
  const remark = expect.stringContaining('rendezvous');
  const dropped = ['tony.driver.instances', 'tony.driver.command', 'tony.horovod.driver.mode.debug'];
  expect(keys.filter(({ key }) => dropped.includes(key))).toMatchObject(dropped.map((key) => ({ key, to: null, remark })));
});

describe("converts TonY's order of roles:", () => {
  const python = { 'tony.containers.command': 'python exit_0.py', 'tony.application.framework': 'tensorflow' };

  test('roles of the training stage wait for the tracked roles of the prepare stage', () => {
    const { yaml, keys, missing } = convert({
      ...python,
      ...Object.fromEntries(['worker', 'ps', 'db', 'dbloader'].map((name) => [`tony.${name}.instances`, '1'])),
      'tony.application.prepare-stage': 'dbloader,db',
      'tony.application.training-stage': 'ps, worker',
    });
    expect(missing).toEqual([]);
    const waits = [
      { role: 'dbloader', state: 'succeeded' },
      { role: 'db', state: 'succeeded' },
    ];
    expect(jobOf(yaml)).toMatchObject({
      framework: 'tensorflow',
      roles: [
        { name: 'worker', kind: 'gang', after: waits },
        { name: 'ps', kind: 'gang', after: waits },
        { name: 'db', kind: 'independent', after: [] },
        { name: 'dbloader', kind: 'independent', after: [] },
      ],
    });
    expect(keys.slice(-2).map(({ to }) => to)).toEqual(['roles.*.after', 'roles.*.after']);
  });

  test.each([
    ['prepare', 'db', ['db']],
    ['training', 'worker,evaluator', ['db']],
    ['prepare', 'db,tensorboard,undeclared', ['db']],
  ])('if only the %s stage names %s, all other roles are in the other stage', (stage, names, awaited) => {
    const { yaml, missing } = convert({
      ...python,
      ...Object.fromEntries(['worker', 'evaluator', 'db', 'tensorboard'].map((name) => [`tony.${name}.instances`, '1'])),
      [`tony.application.${stage}-stage`]: names,
    });
    expect(missing).toEqual([]);
    const { roles } = jobOf(yaml);
    for (const name of ['worker', 'evaluator']) {
      expect(roles.find((role) => role.name === name)?.after.map(({ role }) => role)).toEqual(awaited);
    }
  });

  test.each([
    [{}, 'fail'],
    [{ 'tony.application.dependency.worker.timeout.after.A.ignored': 'true' }, 'stop'],
  ] as const)('a dependency on a group, with %o, becomes endAfter with late: %s', (ignored, late) => {
    const { yaml, keys, missing } = convert({
      ...python,
      'tony.chief.instances': '1',
      'tony.worker.instances': '2',
      'tony.application.group.A': 'chief',
      'tony.application.group.B': 'worker',
      'tony.application.dependency.worker.timeout.after.A': '10',
      'tony.application.dependency.undeclared.timeout.after.A': '10',
      ...ignored,
    });
    expect(missing).toEqual([]);
    expect(jobOf(yaml).roles.map(({ name, endAfter }) => [name, endAfter])).toEqual([
      ['chief', null],
      ['worker', { roles: ['chief'], timeoutMs: 10_000, late }],
    ]);
    expect(keys.slice(4).map(({ to }) => to)).toEqual([
      'roles.worker.endAfter.role',
      null,
      'roles.worker.endAfter.timeout',
      null,
      ...Object.keys(ignored).map(() => 'roles.worker.endAfter.late'),
    ]);
  });

  test('the time limit of tasks applies to each role', () => {
    const { yaml } = convert({ ...python, 'tony.worker.instances': '1', 'tony.task.executor.execution-timeout-ms': '90000' });
    expect(jobOf(yaml).roles).toMatchObject([{ timeoutMs: 90_000 }]);
  });
});

describe('the converted job ends as in TonY:', () => {
  const python = { 'tony.containers.command': 'python train.py' };
  const instances = (roles: Readonly<Record<string, number>>) =>
    Object.fromEntries(Object.entries(roles).map(([role, count]) => [`tony.${role}.instances`, String(count)]));

  test('parameter servers of TensorFlow have ranks, and end when all tracked tasks have ended', () => {
    const { yaml, keys } = convert({
      ...python,
      ...instances({ worker: 2, chief: 1, ps: 1, evaluator: 1, tensorboard: 1, prepare: 1 }),
      'tony.application.framework': 'tensorflow',
      'tony.application.prepare-stage': 'prepare',
      'tony.application.untracked.jobtypes': 'ps',
    });
    const { successPolicy, roles } = jobOf(yaml);
    expect(successPolicy).toBe('ended');
    const ps = roles.find(({ name }) => name === 'ps');
    expect(ps).toMatchObject({ kind: 'gang', restart: { policy: 'never' } });
    expect(ps?.endAfter).toEqual({ roles: ['worker', 'chief', 'evaluator'], timeoutMs: 0, late: 'stop' });
    expect(keys.at(-1)).toMatchObject({ to: null, remark: expect.stringContaining('endAfter') });
  });

  test.each([
    ['tensorflow', { worker: 2, ps: 1 }, {}, 'ended'],
    ['tensorflow', { worker: 1, ps: 1 }, {}, 'all'],
    ['tensorflow', { worker: 2, ps: 1 }, { 'tony.application.fail-on-worker-failure-enabled': 'TRUE' }, 'all'],
    ['tensorflow', { worker: 2, ps: 1 }, { 'tony.application.fail-on-worker-failure-enabled': 'False' }, 'ended'],
    ['tensorflow', { worker: 2 }, {}, 'all'],
    ['pytorch', { worker: 2 }, { 'tony.application.fail-on-worker-failure-enabled': 'false' }, 'all'],
    ['horovod', { worker: 2 }, {}, 'all'],
    ['mxnet', { worker: 2, server: 2, scheduler: 1 }, {}, 'ended'],
    ['mxnet', { worker: 1, server: 2 }, { 'tony.application.untracked.jobtypes': 'server' }, 'all'],
  ] as const)('%s with %o and %o: successPolicy is %s', (framework, roles, settings, successPolicy) => {
    const { yaml, missing, differences } = convert({
      ...python,
      ...instances(roles),
      'tony.application.framework': framework,
      ...settings,
    });
    expect(missing).toEqual([]);
    expect(jobOf(yaml).successPolicy).toBe(successPolicy);
    // The report names a difference exactly if TonY ignores failures.
    const ignores =
      Object.entries(roles).some(([role, count]) => role === 'worker' && count > 1) && !Object.values(settings).includes('TRUE');
    expect(differences.some((line) => line.startsWith('Failed tasks:'))).toBe(ignores);
  });

  test('untracked tasks and stop-on-failure tasks fail the job', () => {
    const { yaml } = convert({
      ...python,
      ...instances({ worker: 2, store: 1, loader: 1 }),
      'tony.application.framework': 'mxnet',
      'tony.application.untracked.jobtypes': 'store',
      'tony.application.stop-on-failure-jobtypes': 'loader',
    });
    expect(jobOf(yaml)).toMatchObject({
      successPolicy: 'ended',
      roles: [{ kind: 'gang', restart: { policy: 'on-failure' } }, { kind: 'service' }, { restart: { policy: 'never' } }],
    });
  });
});

describe('tells every value that is not carried over as it is written:', () => {
  const of = (properties: Readonly<Record<string, string>>, environment = {}) => {
    const imported = convertTony(
      xml({ 'tony.worker.instances': '1', 'tony.containers.command': 'python train.py', ...properties }),
      { file: 'tony.xml' },
      environment,
    );
    return { ...imported, told: (key: string) => imported.keys.find((each) => each.key === key) };
  };

  test('entries of the environment without an equals sign are empty variables, as in TonY', () => {
    const { yaml, told } = of({ 'tony.containers.envs': 'HOSTS=h1,h2,h3,LR=0.1,FLAG', 'tony.execution.envs': 'a.b=1,LR=0.2,TONY_RANK=3' });
    expect(jobOf(yaml).env).toEqual({ HOSTS: 'h1', h2: '', h3: '', LR: '0.2', FLAG: '' });
    expect(told('tony.containers.envs')).toMatchObject({ to: 'env', remark: expect.stringContaining('empty: h2, h3, FLAG') });
    expect(told('tony.execution.envs')?.remark).toContain('does not accept the names of these variables: a.b=1, TONY_RANK=3');
  });

  test.each(['TRUE', 'True', 'true'])('Docker with %s', (enabled) => {
    const { yaml, told } = of({
      'tony.docker.enabled': enabled,
      'tony.docker.containers.image': 'x/y:1',
      'tony.docker.containers.mount': '/d:/d:ro',
    });
    expect(jobOf(yaml).roles[0]?.docker).toMatchObject({ image: 'x/y:1', mounts: ['/d:/d:ro'] });
    expect(told('tony.docker.containers.image')?.to).toBe('roles.*.docker, master.docker');
  });

  test.each([
    ['false', 'tony.docker.enabled is not true'],
    ['yes', 'tony.docker.enabled is not true'],
  ])('an image with tony.docker.enabled = %s', (enabled, reason) => {
    const { told } = of({ 'tony.docker.enabled': enabled, 'tony.docker.containers.image': 'x/y:1', 'tony.docker.worker.image': 'z' });
    for (const key of ['tony.docker.containers.image', 'tony.docker.worker.image']) {
      expect(told(key)).toMatchObject({ to: null, remark: expect.stringContaining(reason) });
    }
  });

  test('a boolean that is neither true nor false, and Docker without an image', () => {
    expect(of({ 'tony.docker.enabled': 'yes' }).told('tony.docker.enabled')?.remark).toContain('neither true nor false');
    expect(of({ 'tony.docker.enabled': 'true' }).told('tony.docker.enabled')?.remark).toContain('no image is set');
  });

  test.each([
    ['tony.worker.vcores', '2.0'],
    ['tony.worker.gpus', 'one'],
    ['tony.worker.instances', 'two'],
    ['tony.am.vcores', 'x'],
    ['tony.application.timeout', '1h'],
    ['tony.task.max-missed-heartbeats', '2.5'],
  ])('%s = %s is no number', (key, value) => {
    const { told, missing } = of({ 'tony.ps.instances': '1', [key]: value });
    expect(told(key)).toMatchObject({ to: null, remark: expect.stringContaining('not a whole number, which TonY rejects') });
    expect(missing).toContain(`${key}  expected a whole number, found \`${value}\``);
  });

  test('numbers and sizes in the notations of Hadoop', () => {
    const { yaml, missing } = of({ 'tony.worker.vcores': '0x4', 'tony.worker.memory': '3GB', 'tony.am.memory': '900M' });
    expect(missing).toEqual([]);
    expect(jobOf(yaml)).toMatchObject({ roles: [{ resources: { vcores: 4, memoryMb: 3072 } }], master: { resources: { memoryMb: 900 } } });
  });

  test('names that job.yaml does not accept, and variables of Hadoop', () => {
    const name = 'tony.application.name';
    expect(of({ [name]: 'rank (nightly)' }).told(name)).toMatchObject({ to: 'name', remark: expect.stringContaining('rank -nightly-') });
    const own = of(
      { [name]: `\${user.name}-job`, 'tony.execution.envs': `HOME_DIR=\${env.DATA:-/d}/\${tony.yarn.queue}`, 'tony.yarn.queue': 'q' },
      { HADOOP_USER_NAME: 'alice' },
    );
    expect(jobOf(own.yaml)).toMatchObject({ name: expect.stringMatching(/^[\w.]+-job$/), env: { HOME_DIR: '/d/q' } });
    expect(own.told(name)?.remark).toMatch(/^\$\{user.name\}-job is [\w.]+-job here$/);
    expect(of({ 'tony.src.dir': `\${unknown}/src` }).told('tony.src.dir')?.remark).toContain('its value is not known here');
  });

  test('the positions of mistakes refer to the file that is written, and relative paths start from its folder', () => {
    const folder = path.join(process.cwd(), 'jobs');
    const { missing, yaml } = convert(
      {
        'tony.worker.instances': '1',
        'tony.worker.memory': 'much',
        'tony.containers.command': 'x',
        'tony.containers.resources': 'a/b.txt,/c.txt,hdfs:///d',
      },
      { to: path.join(folder, 'out.yaml'), sourceFolder: 'src', pythonVenv: 'venv.zip' },
    );
    expect(missing).toEqual([expect.stringMatching(/^out.yaml:\d+:\d+ /)]);
    expect(yaml).toContain('source: ../src');
    expect(yaml).toContain('archive: ../venv.zip');
    expect(yaml).toContain('b.txt: ../a/b.txt\n  c.txt: /c.txt\n  d: hdfs:///d');
  });

  test('a -conf value is added to a list, and replaces other values', () => {
    const { yaml } = convert(
      { 'tony.worker.instances': '1', 'tony.containers.command': 'python a.py', 'tony.execution.envs': 'A=1' },
      { settings: ['tony.execution.envs=B=2', 'tony.worker.instances=3'] },
    );
    expect(jobOf(yaml)).toMatchObject({ env: { A: '1', B: '2' }, roles: [{ instances: 3 }] });
  });

  test('the defaults that differ, only if the configuration does not set the value', () => {
    const told = (properties: Readonly<Record<string, string>>) => of(properties).differences.map((line) => line.split(':')[0]);
    expect(told({})).toEqual(['Restarts', 'Waiting', 'Heartbeats', 'ApplicationMaster', 'Access', 'Variables', 'Site']);
    const set = { 'tony.am.memory': '1g', 'tony.task.max-missed-heartbeats': '5', 'tony.container.allocation.timeout': '1000' };
    expect(told({ ...set, 'tony.application.stop-on-failure-jobtypes': 'worker' })).toEqual(['Access', 'Variables', 'Site']);
  });
});

test('reports as converted only the keys whose values job.yaml contains', () => {
  const to = (properties: Readonly<Record<string, string>>, given: TonyArguments = {}) =>
    Object.fromEntries(convert(properties, given).keys.map(({ key, to: place }) => [key.slice('tony.'.length), place]));
  const odd = { 'tony.application.timeout': '-1', 'tony.task.max-missed-heartbeats': 'x', 'tony.containers.command': 'python old.py' };
  expect(to({ 'tony.worker.instances': '1', ...odd }, { executes: 'new.py' })).toEqual({
    'worker.instances': 'roles.worker.instances',
    'application.timeout': null,
    'task.max-missed-heartbeats': null,
    'containers.command': null,
  });
  expect(to({ 'tony.am.command': 'python notebook.py', 'tony.am.gpus': '1', 'tony.am.retry-count': '2' })).toEqual({
    'am.command': 'command',
    'am.gpus': 'roles.worker.resources.gpus',
    'am.retry-count': null,
  });
  expect(convert({ 'tony.worker.instances': '1', constructor: 'x', 'tony.worker.toString': 'x' }).keys.slice(1)).toMatchObject([
    { key: 'constructor', to: null },
    { key: 'tony.worker.toString', to: null },
  ]);
});

test("the options for TonY's command-line arguments override the file", () => {
  const { yaml } = convert(
    { 'tony.worker.instances': '1', 'tony.containers.command': 'python old.py' },
    { settings: ['tony.worker.instances=3'], executes: 'new.py', python: 'python3' },
  );
  expect(jobOf(yaml)).toMatchObject({ framework: 'tensorflow', roles: [{ instances: 3, command: 'python3 new.py' }] });
  expect(() => convert(MNIST, { settings: ['nonsense'] })).toThrow('--set nonsense is not an assignment');
  expect(() => convert(MNIST, { shellEnv: ['nonsense'] })).toThrow('--shell-env nonsense is not an assignment');
  const { yaml: other, missing } = convert(MNIST, {
    ...{ executes: 'train.py', python: 'bin/python3', pythonVenv: 'venv.zip', tensorboardLogDir: 'hdfs:///new' },
    ...{ shellEnv: ['EPOCHS=5,6'], containerEnv: ['SHARED=1', 'EPOCHS=4'] },
  });
  expect(missing).toEqual([]);
  expect(jobOf(other)).toMatchObject({
    python: { type: 'archive', path: '/venv.zip' },
    env: { DATA: 'hdfs:///data/mnist', SHARED: '1', EPOCHS: '5,6' },
    tensorboard: { logdir: 'hdfs:///new' },
    roles: [{ command: 'python3 train.py' }, {}],
  });
});

describe('reports what job.yaml still needs:', () => {
  test('a command', () => {
    expect(convert({ 'tony.worker.instances': '1' }).missing).toEqual([
      expect.stringContaining('neither the role nor the job sets a command'),
    ]);
  });
  test('an invalid size', () => {
    const { missing } = convert({ 'tony.worker.instances': '1', 'tony.worker.memory': 'much', 'tony.containers.command': 'x' });
    expect(missing).toEqual([expect.stringContaining('expected a size')]);
  });
});

test('converts the command that TonY runs in its ApplicationMaster, because no role has tasks, to a worker', () => {
  const { yaml } = convert({ 'tony.am.command': 'python notebook.py', 'tony.am.memory': '8g', 'tony.am.gpus': '1' }, { executes: 'x' });
  expect(jobOf(yaml).roles).toMatchObject([{ command: 'python notebook.py', instances: 1, resources: { memoryMb: 8192, gpus: 1 } }]);
  const single = convert({}, { executes: 'train.py', python: 'python3' });
  expect(jobOf(single.yaml).roles).toMatchObject([{ name: 'worker', instances: 1, command: 'python3 train.py' }]);
  expect(() => convert({ 'tony.worker.instances': '0' })).toThrow('starts no tasks');
});

test('writes valid YAML that keeps any value unchanged', () => {
  const value = fc
    .string({ unit: fc.constantFrom('a', '0', ' ', ':', '#', '"', "'", '{', ',', '-', '&', 'é', '\\') })
    .map((text) => text.trim());
  fc.assert(
    fc.property(value, value, (command, queue) => {
      const { yaml, keys, missing } = convert({
        'tony.worker.instances': '1',
        'tony.containers.command': command,
        'tony.yarn.queue': queue,
      });
      expect(keys).toHaveLength(3);
      if (missing.length > 0) {
        return;
      }
      expect(jobOf(yaml)).toMatchObject({ queue, roles: [{ command }] });
    }),
  );
});

test("the report fits the terminal's width", () => {
  const imported = convert(MNIST);
  for (const columns of [80, 200]) {
    const lines = importLines(imported, terminalOf({ columns }), 'job.yaml');
    expect(lines.filter((line) => line.length >= columns)).toEqual([]);
    expect(lines.join('\n')).toContain('Not converted:');
    expect(lines.join('\n')).toContain('Defaults that differ:');
  }
});
