import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { FRAMEWORK_NAMES } from '../frameworks/names.ts';
import { processesOf } from '../processes.ts';
import { loadJob, parseJob } from './load-job.ts';
import { checkedJob } from './resolved-job.ts';

const parse = (text: string, set: readonly string[] = []) => parseJob(text, { file: 'job.yaml', folder: '/home/alice/mnist', set });

function mistakes(text: string, set: readonly string[] = []): string[] {
  try {
    parse(text, set);
  } catch (error) {
    if (!(error instanceof TonyError)) {
      throw error;
    }
    expect(error.code).toBe('JOB_INVALID');
    expect(error.exitCode).toBe(2);
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.trim());
  }
  return [];
}

const MINIMAL = 'name: hello\nroles: {worker: {command: node train.ts}}\n';

describe('a job file', () => {
  test('needs a name and one role; all other keys have defaults', () => {
    expect(parse(MINIMAL)).toEqual({
      name: 'hello',
      queue: 'default',
      python: { type: 'system' },
      source: null,
      framework: 'tfjs',
      processesPerTask: 'auto',
      runtime: 'default',
      data: {},
      files: [],
      env: {},
      roles: [
        {
          name: 'worker',
          instances: 1,
          maxInstances: 1,
          resources: { memoryMb: 2048, vcores: 1, gpus: 0, other: {} },
          command: 'node train.ts',
          files: [],
          env: {},
          nodeLabel: null,
          docker: null,
          restart: { policy: 'on-failure', maxRestarts: 3, onExitCodes: null },
          kind: 'gang',
          chief: true,
          servesParameters: false,
          spare: false,
          timeoutMs: null,
          gracePeriodMs: 3_000,
          after: [],
          endAfter: null,
        },
      ],
      successPolicy: 'all',
      restart: { maxRestarts: null },
      gang: { timeoutMs: 300_000 },
      heartbeat: { intervalMs: 1000, missed: 10 },
      checkpoint: { dir: null, everySteps: 100, everyMs: null, keep: 3, sync: null },
      tensorboard: { logdir: null, serve: false, resources: { memoryMb: 1024, vcores: 1 } },
      strategy: { type: 'all-reduce' },
      wire: { dtype: 'float32', security: 'none' },
      timeoutMs: null,
      acls: { view: { users: [], groups: [] }, modify: { users: [], groups: [] } },
      kerberos: null,
      remoteAccess: true,
      master: {
        resources: { memoryMb: 1024, vcores: 1 },
        nodeLabel: null,
        docker: null,
        env: {},
        logLevel: 'info',
        failureWindowMs: null,
        startTimeoutMs: null,
      },
      priority: 0,
      tags: [],
    });
  });

  test('uses its folder as the source if a command names a file in it, unless the job sets another source', () => {
    const read = (text: string, folder = '/jobs/mnist') =>
      parseJob(text, { file: 'job.yaml', folder, isFile: (path) => path === 'train.ts' }).source;
    expect(read('name: a\ncommand: node train.ts\nroles: {worker: {}}')).toEqual({ path: '/jobs/mnist', exclude: [] });
    expect(read('name: a\nroles: {worker: {command: node train.ts}}')).toEqual({ path: '/jobs/mnist', exclude: [] });
    expect(read('name: a\ncommand: sleep 5\nroles: {worker: {}}')).toBeNull();
    expect(read('name: a\nsource: null\ncommand: node train.ts\nroles: {worker: {}}')).toBeNull();
    expect(read('name: a\nsource: src\ncommand: node train.ts\nroles: {worker: {}}')).toEqual({ path: '/jobs/mnist/src', exclude: [] });
    expect(() => read('name: a\ncommand: node train.ts\nroles: {worker: {}}', homedir())).toThrow('a command names train.ts, which is in');
    expect(read('name: a\nsource: .\ncommand: node train.ts\nroles: {worker: {}}', homedir())).toEqual({ path: homedir(), exclude: [] });
  });

  test('cannot set variables that tony-ts sets, or use URIs of unsupported storage', () => {
    const found = mistakes(
      'name: a\ncommand: b\nenv: {TONY_RANK: 1}\ncheckpoint: {dir: "abfs://b/c"}\ntensorboard: {logdir: gs://x/y}\ndata: {d: http://h/x}\nroles: {w: {env: {TONY_ROLE: x}}}',
    ).join('\n');
    expect(found).toContain('env.TONY_RANK: `TONY_RANK` begins with TONY_, which tony-ts reserves');
    expect(found).toContain('roles.w.env.TONY_ROLE');
    const places = mistakes(
      'name: a\ncommand: b\ncheckpoint: {dir: "abfs://b/c"}\ntensorboard: {logdir: gs://x/y}\ndata: {d: http://h/x}\nroles: {w: {}}',
    );
    expect(places.map((line) => line.trim().split(/ +/)[1])).toEqual(['checkpoint.dir:', 'tensorboard.logdir:', 'data.d:']);
  });

  test('resolves units, paths and other resource types', () => {
    const job = parse(`
name: mnist
source: {path: ., exclude: ['*.png']}
data: {mnist: ../data, big: hdfs://nn/data/big}
timeout: 2h
env: {DEBUG: true, LEVEL: 3}
command: node train.ts
roles:
  worker: {instances: 2, resources: {memory: 1.5g, vcores: 2, gpus: 1, yarn.io/fpga: 1}, env: {A: b}}
  evaluator: {command: node evaluate.ts}
  board: {kind: sidecar}
  store: {kind: service, restart: {policy: never}}
`);
    expect(job.source).toEqual({ path: '/home/alice/mnist', exclude: ['*.png'] });
    expect(job.data).toEqual({ mnist: '/home/alice/data', big: 'hdfs://nn/data/big' });
    expect(job.timeoutMs).toBe(7_200_000);
    expect(job.env).toEqual({ DEBUG: 'true', LEVEL: '3' });
    expect(job.roles.map((role) => [role.name, role.kind, role.chief, role.command])).toEqual([
      ['worker', 'gang', true, 'node train.ts'],
      ['evaluator', 'independent', false, 'node evaluate.ts'],
      ['board', 'sidecar', false, 'node train.ts'],
      ['store', 'service', false, 'node train.ts'],
    ]);
    expect(job.roles[0]?.resources).toEqual({ memoryMb: 1536, vcores: 2, gpus: 1, other: { 'yarn.io/fpga': 1 } });
  });

  test.each(['tfjs', 'none'])(
    'ranks tasks by default with framework %s, except those of evaluators, servers, sidecars and services',
    (framework) => {
      const roles =
        '{worker: {}, solo: {kind: independent}, evaluator: {}, ps: {command: serve}, board: {kind: sidecar}, store: {kind: service}}';
      const job = parse(`name: x\nframework: ${framework}\ncommand: run\nroles: ${roles}\n`);
      expect(job.roles.filter(({ kind }) => kind === 'gang').map(({ name }) => name)).toEqual(['worker']);
    },
  );

  test.each([
    ['chief beside worker', '{worker: {}, chief: {}}', 'chief'],
    ['worker beside others', '{a: {}, worker: {}}', 'worker'],
    ['the first tracked role', '{board: {kind: sidecar}, a: {}, b: {}}', 'a'],
    ['the role that the job names', '{worker: {}, boss: {}}\nchief: boss', 'boss'],
  ])('has one chief: %s', (_, roles, chief) => {
    const job = parse(`name: x\ncommand: 'true'\nroles: ${roles}\n`);
    expect(job.roles.filter((role) => role.chief).map((role) => role.name)).toEqual([chief]);
  });
});

describe('parameter servers', () => {
  const roles = (text: string) =>
    parse(text).roles.map(({ name, instances, command, kind, servesParameters }) => ({
      name,
      instances,
      command,
      kind,
      servesParameters,
    }));
  const worker = { name: 'worker', instances: 2, command: 'node train.ts', kind: 'gang', servesParameters: false };
  const ps = { name: 'ps', instances: 1, command: 'node train.ts', kind: 'service', servesParameters: true };

  test('are added by the strategy, as large as the chief but without GPUs', () => {
    const text =
      'name: x\nstrategy: parameter-server\nroles: {worker: {command: node train.ts, instances: 2, resources: {memory: 4g, vcores: 2, gpus: 1}}}\n';
    expect(roles(text)).toEqual([worker, ps]);
    expect(parse(text).roles[1]?.resources).toEqual({ memoryMb: 4096, vcores: 2, gpus: 0, other: {} });
  });

  test("run the chief's command unless they set their own", () => {
    const text = (more: string) =>
      `name: x\nstrategy: parameter-server\nroles: {ps: {instances: 3${more}}, worker: {instances: 2, command: node train.ts}}\n`;
    expect(roles(text(''))).toEqual([{ ...ps, instances: 3 }, worker]);
    expect(roles(text(', command: node serve.ts'))[0]?.command).toBe('node serve.ts');
  });

  test.each(['all-reduce', '{type: all-reduce}'])('are omitted with %s', (strategy) => {
    const text = `name: x\ncommand: node train.ts\nstrategy: ${strategy}\nroles: {ps: {instances: 3}, worker: {instances: 2}}\n`;
    expect(roles(text)).toEqual([worker]);
  });

  test('do not include services named ps, which stay unchanged', () => {
    const own = 'name: x\nroles: {ps: {command: serve, kind: service}, worker: {instances: 2, command: node train.ts}}\n';
    expect(roles(own)).toEqual([{ ...ps, command: 'serve', servesParameters: false }, worker]);
    const none = 'name: x\nframework: none\ncommand: run\nroles: {ps: {kind: service}, worker: {}}\n';
    expect(roles(none).map(({ name }) => name)).toEqual(['ps', 'worker']);
  });
});

test('instances {min, max} let a role grow and shrink', () => {
  const [worker] = parse('name: x\ncommand: node train.ts\nroles: {worker: {instances: {min: 2, max: 8}}}\n').roles;
  expect(worker).toMatchObject({ instances: 2, maxInstances: 8 });
});

describe('framework pytorch', () => {
  const job = (more: string) => `name: a\nframework: pytorch\ncommand: python3 train.py\n${more}`;

  test('ranks the same roles as the other frameworks, and adds no parameter servers', () => {
    const { roles, framework } = parse(job('roles: {chief: {}, worker: {instances: 2}, evaluator: {}, ps: {kind: gang}}\n'));
    expect(framework).toBe('pytorch');
    expect(roles.map(({ name, kind, servesParameters }) => [name, kind, servesParameters])).toEqual([
      ['chief', 'gang', false],
      ['worker', 'gang', false],
      ['evaluator', 'independent', false],
      ['ps', 'gang', false],
    ]);
  });

  test('rejects strategies, parameter servers and the variables of its launcher', () => {
    expect(
      mistakes(job('strategy: parameter-server\nenv: {RANK: 1}\nroles: {worker: {env: {MASTER_PORT: 1, OMP_NUM_THREADS: 2}}, ps: {}}\n')),
    ).toEqual([
      'job.yaml:4:11  strategy: applies only to framework tfjs: the code of PyTorch programs determines how they exchange gradients; remove the key',
      'job.yaml:5:7  env.RANK: tony-ts sets this variable for framework pytorch: remove it, or write `framework: none` to set all such variables yourself',
      'job.yaml:6:24  roles.worker.env.MASTER_PORT: tony-ts sets this variable for framework pytorch: remove it, or write `framework: none` to set all such variables yourself',
      'job.yaml:6:62  roles.ps: tony-ts has no parameter servers for framework pytorch: remove the role, or write `kind: gang` if its tasks start together with the others',
    ]);
    expect(mistakes(job('wire: {dtype: float16}\nroles: {worker: {}}\n'))).toHaveLength(1);
  });
});

test('processesPerTask is one per GPU by default, and applies only to framework pytorch', () => {
  const job = (more: string) => `name: a\ncommand: python3 train.py\n${more}\n`;
  const { processesPerTask } = parse(job('framework: pytorch\nroles: {worker: {resources: {gpus: 4}}}'));
  expect([0, 1, 4].map((gpus) => processesOf(processesPerTask, { resources: { gpus } }))).toEqual([1, 1, 4]);
  expect(parse(job('framework: pytorch\nprocessesPerTask: 2\nroles: {worker: {}}')).processesPerTask).toBe(2);
  expect(mistakes(job('framework: pytorch\nroles: {worker: {resources: {gpus: 17}}, evaluator: {resources: {gpus: 17}}}'))).toEqual([
    'job.yaml:4:36  roles.worker.resources.gpus: a task can run at most 16 processes: use more tasks with fewer GPUs, or set `processesPerTask`',
  ]);
  expect(mistakes(job('framework: jax\nprocessesPerTask: 2\nroles: {worker: {}}'))).toEqual([
    'job.yaml:4:19  processesPerTask: applies only to frameworks pytorch, horovod and mpi: programs of other frameworks use all GPUs of their task',
  ]);
  expect(mistakes(job('framework: pytorch\nprocessesPerTask: 17\nroles: {worker: {}}'))).toEqual([
    'job.yaml:4:19  processesPerTask: must be at most 16',
  ]);
});

test('checkpoint.sync is a folder in the working directory of a program that does not use fit', () => {
  const job = (sync: string, more = 'framework: none\n') =>
    `name: a\ncommand: ./train\n${more}roles: {worker: {}}\ncheckpoint: {sync: ${sync}}\n`;
  expect(parse(job('./out/ckpt/')).checkpoint.sync).toBe('out/ckpt');
  for (const sync of ['/tmp/ckpt', '../ckpt', '.', 'a/../..']) {
    expect(mistakes(job(sync))).toEqual(['job.yaml:5:20  checkpoint.sync: expected a folder below the working directory, such as ./ckpt']);
  }
  expect(mistakes(job('ckpt', ''))).toEqual([
    expect.stringContaining('checkpoint.sync: programs of framework tfjs store their checkpoints with `join`'),
  ]);
  const tfjs = { ...parse(job('ckpt')), framework: 'tfjs' as const };
  expect(() => checkedJob(tfjs)).toThrow('checkpoint.sync: programs of framework tfjs');
});

test('framework tensorflow accepts the roles of TF_CONFIG', () => {
  const job = (roles: string) => `name: a\nframework: tensorflow\ncommand: python3 train.py\nroles: {${roles}}\n`;
  const { roles } = parse(job('chief: {}, worker: {instances: 2}, ps: {kind: gang}, evaluator: {}, own: {kind: independent}'));
  expect(roles.map(({ kind }) => kind)).toEqual(['gang', 'gang', 'gang', 'independent', 'independent']);
  expect(mistakes(job('chief: {instances: 2}, trainer: {}'))).toEqual([
    'job.yaml:4:28  roles.chief.instances: TensorFlow allows only one chief',
    'job.yaml:4:32  roles.trainer: TensorFlow recognises only tasks named chief, worker, ps and evaluator: rename the role, or write `kind: independent`',
  ]);
});

test('keys at the top level that begin with x- belong to the user', () => {
  const text =
    'apiVersion: tony-ts/v1\nx-small: &small {memory: 1g}\nname: a\nroles: {worker: {command: ls, resources: *small}}\nx-note: 5\n';
  const [worker] = parseJob(text, { file: 'job.yaml', folder: '/' }).roles;
  expect(worker?.resources.memoryMb).toBe(1024);
});

test('a job file for a later version names this version, and lists no other mistakes', () => {
  expect(() => parseJob('apiVersion: tony-ts/v9\nnew: {}\nname: a\n', { file: 'job.yaml', folder: '/' })).toThrow(
    /^The job file has a mistake:\n {2}job\.yaml:1:13 {2}apiVersion: this file requires a tony-ts that reads tony-ts\/v9\. tony-ts \d+\.\d+\.\d+ reads tony-ts\/v1: install a newer tony-ts, or write the file for tony-ts\/v1$/,
  );
});

describe('mistakes', () => {
  const ROLE = (more: string) => `name: a\ncommand: x\nroles: {b: {${more}}}`;
  const PS = (more: string) => `name: a\ncommand: x\nstrategy: parameter-server\nroles: {ps: {${more}}, worker: {}}`;
  test('are reported together, in the order of the file, with line, column and correction', () => {
    expect(
      mistakes(`name: "mnist !"
qeue: gpu
command: 5
framework: tfj
heartbeat: {interval: 5}
roles:
  worker:
    instances: two
    resources: {memory: 2x, gpu: 1, gpus: -1}
  Evaluator: {}
timeout: 10ms
acls: {view: [a]}
source: {pth: .}
gang: {timeout: 20m}
`),
    ).toEqual([
      'job.yaml:1:7  name: may contain only letters, digits, spaces and . _ : @ + -, and must start with a letter, a digit or _',
      expect.stringMatching(/^job\.yaml:2:1 {2}qeue: is not a known key; did you mean `queue`\? \(known: apiVersion, name, queue, /),
      'job.yaml:3:10  command: expected a string, found `5`',
      `job.yaml:4:12  framework: \`tfj\` is not one of ${FRAMEWORK_NAMES.join(', ')}; did you mean \`tfjs\`?`,
      'job.yaml:5:23  heartbeat.interval: expected a duration such as 500ms, 30s, 10m or 1h30m, found `5`',
      'job.yaml:8:16  roles.worker.instances: expected a number, or {min, max}, found `two`',
      'job.yaml:9:25  roles.worker.resources.memory: expected a size such as 512m or 4g, found `2x`',
      'job.yaml:9:29  roles.worker.resources.gpu: is not a resource type; did you mean `gpus`?',
      'job.yaml:9:43  roles.worker.resources.gpus: must be at least 0',
      'job.yaml:10:3  roles.Evaluator: `Evaluator` is not a valid role name (lower-case letters, digits and -)',
      'job.yaml:11:10  timeout: must be at least 1 s',
      'job.yaml:12:14  acls.view: expected a mapping, found a list',
      'job.yaml:13:1  source.path: is missing',
      'job.yaml:13:10  source.pth: is not a known key; did you mean `path`? (known: path, exclude)',
      'job.yaml:14:17  gang.timeout: must be at most 9 min 30 s (YARN reclaims unused containers after 10 minutes)',
    ]);
  });

  test.each([
    ['a list instead of a mapping', '- a\n- b\n', /expected a mapping with the keys name and roles, found a list/],
    ['an empty file', '', /expected a mapping with the keys name and roles, found nothing/],
    ['a word instead of a mapping', 'hello', /expected a mapping .* found `hello`/],
    ['broken YAML', 'name: [a\nroles: {', /^job\.yaml:\d+:\d+ {2}\S/],
    ['a key twice', 'name: a\nname: b\nroles: {w: {command: x}}', /job\.yaml:2:1 {2}this mapping already contains a key with this name$/],
    ['no roles', 'name: a\n', /roles: is missing: at least one role is required/],
    ['empty roles', 'name: a\nroles: {}\n', /roles: at least one role is required/],
    ['no command anywhere', 'name: a\nroles: {worker: {}}\n', /roles\.worker: neither the role nor the job sets a command/],
    ['only sidecars', 'name: a\ncommand: x\nroles: {b: {kind: sidecar}}\n', /at least one role must be of kind gang or independent/],
    [
      'only sidecars beside a role that all-reduce drops',
      'name: a\ncommand: x\nroles: {b: {kind: sidecar}, ps: {}}\n',
      /at least one role must be of kind gang or independent/,
    ],
    ['only servers, which the strategy does not use', 'name: a\ncommand: x\nroles: {ps: {}}\n', /no role would train: add a `worker` role/],
    [
      'a chief that is no role',
      'name: a\ncommand: x\nchief: boss\nroles: {b: {}, c: {}}\n',
      /3:8 {2}chief: there is no role `boss` \(roles: b, c\)/,
    ],
    [
      'a chief that is a sidecar',
      'name: a\ncommand: x\nchief: b\nroles: {b: {kind: sidecar}, c: {}}',
      /chief: the job does not wait for role `b` of kind sidecar: choose a role of kind gang or independent/,
    ],
    [
      'a folder called none',
      'name: a\ncommand: x\nsource: none\nroles: {b: {}}',
      /source: write null for no folder, or \.\/none for a folder/,
    ],
    ['no image in the old way', ROLE('docker: none'), /roles\.b\.docker: expected \{image, mounts, network\}, or null, found `none`$/],
    [
      'no keytab in the old way',
      'name: a\ncommand: x\nkerberos: none\nroles: {b: {}}',
      /expected \{keytab, principal\}, or null, found `none`$/,
    ],
    [
      'an unknown kind',
      'name: a\ncommand: x\nroles: {b: {kind: services}}',
      /is not one of gang, independent, service, sidecar; did you mean `service`/,
    ],
    ['a sidecar in the old way', ROLE('sidecar: true'), /roles\.b\.sidecar: is not a known key: write `kind: sidecar`$/],
    ['a service in the old way', ROLE('untracked: true'), /roles\.b\.untracked: is not a known key: write `kind: service`$/],
    ['ranks in the old way', ROLE('ranked: false'), /write `kind: independent` for a role without ranks, `kind: gang` for one with ranks$/],
    ['the chief in the old way', ROLE('chief: true'), /roles\.b\.chief: is not a known key: write `chief: b` next to `roles`$/],
    [
      'exit codes in the old way',
      ROLE('retryOn: [1]'),
      /roles\.b\.retryOn: is not a known key: write `restart: {onExitCodes: \[\.\.\.\]}`$/,
    ],
    ['a time limit in the old way', ROLE('timeLimit: 1h'), /roles\.b\.timeLimit: is not a known key: write `timeout`$/],
    ['restarts beside `restart`', ROLE('maxRestarts: 1'), /roles\.b\.maxRestarts: is not a known key: write it under `restart`$/],
    [
      'the success policy in the old way',
      'name: a\ncommand: x\nsuccess: chief\nroles: {b: {}}',
      /success: is not a known key: write `successPolicy`$/,
    ],
    [
      'a misspelt resource',
      'name: a\ncommand: x\nroles: {b: {resources: {gpu: 1}}}',
      /resources\.gpu: is not a resource type; did you mean `gpus`\?/,
    ],
    [
      'a number of tasks among resources',
      'name: a\ncommand: x\nroles: {b: {resources: {instances: 2}}}',
      /resources\.instances: is not a resource type: write `instances` next to `resources`, not within it/,
    ],
    [
      'a short name with its unit',
      'name: a\ncommand: x\nroles: {b: {resources: {mem: 4g}}}',
      /resources\.mem: is not a resource type; did you mean `memory`\?/,
    ],
    [
      'a fraction of another resource',
      'name: a\ncommand: x\nroles: {b: {resources: {example.com/fpga: 0.5}}}',
      /YARN resource type `example.com\/fpga` requires a whole number, found `0.5`/,
    ],
    ['vcores by another name', 'name: a\ncommand: x\nroles: {b: {resources: {cpus: 2}}}', /resources\.cpus: .*did you mean `vcores`\?/],
    ['GPUs by their YARN name', 'name: a\ncommand: x\nroles: {b: {resources: {yarn.io/gpu: 1}}}', /did you mean `gpus`\?/],
    ['a parameter server that is a sidecar', PS('kind: sidecar'), /roles\.ps\.kind: parameter servers hold the weights and serve the gang/],
    [
      'a parameter server that is the chief',
      `${PS('instances: 1')}\nchief: ps`,
      /chief: the job does not wait for role `ps` of kind service/,
    ],
    ['a parameter server with a rank', PS('kind: gang'), /roles\.ps\.kind: parameter servers hold the weights and serve the gang/],
    [
      'parameter servers that may grow',
      PS('instances: {min: 1, max: 2}'),
      /roles\.ps\.instances: the number of parameter servers is fixed/,
    ],
    ['only servers', 'name: a\ncommand: x\nstrategy: parameter-server\nroles: {ps: {}}', /no role would train: add a `worker` role/],
    ['negative staleness', 'name: a\ncommand: x\nstrategy: {type: parameter-server, staleness: -1}\nroles: {b: {}}', /strategy/],
    [
      'an unknown wire.security',
      'name: a\ncommand: x\nwire: {security: tls}\nroles: {b: {}}',
      /wire\.security: `tls` is not one of none, authenticated, encrypted/,
    ],
    [
      'an unknown strategy',
      'name: a\ncommand: x\nstrategy: gossip\nroles: {b: {}}',
      /expected all-reduce or parameter-server, .*, found `gossip`/,
    ],
    [
      'a maximum below the minimum',
      'name: a\ncommand: x\nroles: {b: {instances: {min: 3, max: 2}}}',
      /max \(2\) is less than min \(3\): swap them/,
    ],
    [
      'a role without ranks that may grow',
      'name: a\ncommand: x\nroles: {b: {}, evaluator: {instances: {min: 1, max: 2}}}',
      /roles\.evaluator\.instances: only a role of kind gang can grow and shrink/,
    ],
    [
      'two roles that may grow',
      'name: a\ncommand: x\nroles: {b: {instances: {min: 1, max: 2}}, c: {instances: {min: 1, max: 2}}}',
      /roles\.c\.instances: only one role can grow and shrink, and `b` already does/,
    ],
    [
      'an invalid name of an environment variable',
      'name: a\ncommand: x\nenv: {A-B: 1}\nroles: {b: {}}',
      /env\.A-B: `A-B` is not a valid environment variable name/,
    ],
  ])('%s', (_, text, expected) => {
    expect(mistakes(text).join('\n')).toMatch(expected);
  });

  test.each<[string, string, string]>([
    ['in a list', 'name: a\ntags: [*x]\nroles: {b: {command: x}}', 'job.yaml:2:8  Unresolved alias'],
    ['beside a valid one', 'name: a\nenv: &e {A: b}\nroles: {b: {command: x, env: *e}, c: *all}', 'job.yaml:3:38  Unresolved alias'],
    ['for a whole section', 'name: a\nroles: *all', 'job.yaml:2:8  Unresolved alias'],
    ['to itself', 'name: a\nroles: &r {b: *r}', 'job.yaml:2:'],
  ])('include an unresolved alias %s', (_, text, expected) => {
    expect(mistakes(text).join('\n')).toContain(expected);
  });

  test('include an alias whose anchor --set has removed', () => {
    const text = 'name: a\nroles: {b: &b {command: x}, c: *b}';
    expect(mistakes(text)).toEqual([]);
    expect(mistakes(text, ['roles.b={command: y}'])[0]).toContain('job.yaml:2:32  Unresolved alias');
  });

  test('include aliases that expand to too many nodes', () => {
    const levels = ['a', 'b', 'c', 'd', 'e'].map((name, level) => {
      const below = level === 0 ? 'x' : `*${'abcd'[level - 1]}`;
      return `  ${name.toUpperCase()}: &${name} [${Array(9).fill(below).join(', ')}]`;
    });
    expect(mistakes(`name: a\nenv:\n${levels.join('\n')}\nroles: {b: {command: x}}`)[0]).toMatch(
      /^job\.yaml:4:10 {2}the aliases of this file would expand to too many values/,
    );
  });

  test('include a missing job file, with the code JOB_UNREADABLE', async () => {
    await expect(loadJob('/nowhere/job.yaml')).rejects.toMatchObject({
      code: 'JOB_UNREADABLE',
      message: 'Cannot read the job file /nowhere/job.yaml: no such file or directory.',
      exitCode: 2,
    });
    await expect(loadJob('/')).rejects.toMatchObject({ message: 'Cannot read the job file /: it is a folder.' });
  });
});

describe('--set', () => {
  test('overrides values, adds missing keys, and parses YAML values', () => {
    const job = parse(MINIMAL, [
      'roles.worker.instances=4',
      'roles.worker.resources.yarn\\.io/fpga=2',
      'roles.evaluator={command: node evaluate.ts}',
      'tags=[a, b]',
      'env.OPTIONS=a=b',
    ]);
    expect(job.roles.map((role) => [role.name, role.instances])).toEqual([
      ['worker', 4],
      ['evaluator', 1],
    ]);
    expect(job.roles[0]?.resources.other).toEqual({ 'yarn.io/fpga': 2 });
    expect(job.tags).toEqual(['a', 'b']);
    expect(job.env).toEqual({ OPTIONS: 'a=b' });
  });

  test('mistakes in an assignment name the assignment', () => {
    expect(mistakes(MINIMAL, ['roles.worker.instances=many'])).toEqual([
      '--set roles.worker.instances=many  roles.worker.instances: expected a number, or {min, max}, found `many`',
    ]);
  });

  test.each(['a', '=3', 'a..b=1', 'a=[1'])('rejects %s', (assignment) => {
    expect(() => parse(MINIMAL, [assignment])).toThrow(expect.objectContaining({ code: 'USAGE' }));
  });
});

test('reports durations and amounts above the limit with their lines, in all keys', () => {
  const text = [
    'name: a',
    'command: x',
    'timeout: 99999999999d',
    'gang: {timeout: 99999999999d}',
    'heartbeat: {interval: 99999999999d}',
    'master: {failureWindow: 99999999999d, startTimeout: 99999999999d, resources: {memory: 99999999999t}}',
    'tags: [""]',
    'roles: {w: {timeout: 99999999999d, resources: {memroy: 1m, memory: 99999999999t, yarn.io/fpga: 99999999999}}}',
  ].join('\n');
  const lines = mistakes(text);
  for (const key of [
    'timeout',
    'gang.timeout',
    'heartbeat.interval',
    'master.failureWindow',
    'master.startTimeout',
    'master.resources.memory',
  ]) {
    expect(lines.filter((line) => line.includes(`  ${key}: must be at most `))).toHaveLength(1);
  }
  for (const key of ['timeout', 'resources.memory', 'resources.yarn.io/fpga']) {
    expect(lines.filter((line) => line.includes(`  roles.w.${key}: must be at most `))).toHaveLength(1);
  }
  expect(lines.filter((line) => line.includes('resources.memroy: is not a resource type; did you mean `memory`?'))).toHaveLength(1);
  expect(lines.filter((line) => line.includes('tags.0'))).toHaveLength(1);
  expect(lines).toHaveLength(11);
});

test.each([
  [`name: ${'x'.repeat(201)}`, 'name: must have at most 200 characters'],
  [`name: a\ncheckpoint: {sync: ${'x'.repeat(201)}}`, 'checkpoint.sync: must have at most 200 characters'],
  ['name: a\nprocessesPerTask: null', 'processesPerTask: expected auto, or a number from 1 to 16, found nothing'],
  ['name: a\npython: null', 'python: expected system, {requirements, version, platform} or {archive}, found nothing'],
  ['name: a\npython: systm', 'found `systm`; did you mean `system`?'],
  ['name: a\nstrategy: {type: .nan}', 'strategy.type: `.nan` is not one of all-reduce, parameter-server'],
  ['name: a\nframework: null', 'framework: expected tfjs or '],
  ['name: a\nremoteAccess: yes', 'remoteAccess: expected true or false, found `yes`'],
  ['name: a\nqueue: "a\\nb"', 'queue: must be one line of visible text'],
  ['name: a\nqueue: " "', 'queue: must be one line of visible text'],
  ['name: a\nqueue: "a\\0b"', 'queue: must be one line of visible text'],
  ['name: a\npython: {requirements: "a\\0b"}', 'python.requirements: must be one line of visible text'],
  ['name: a\nmaster: {env: {A: "a\\0b"}}', 'master.env.A: contains a NUL character'],
  [`name: a\nx: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, 'lists and mappings are nested too deeply here'],
])('a mistake says what is expected: %#', (text, message) => {
  const found = mistakes(`${text}\ncommand: x\nroles: {w: {}}`);
  expect(found).toHaveLength(1);
  expect(found[0]).toContain(message);
});

test.each([
  ['train.ts', 'node'],
  ['train.PY', 'python3'],
  ['run.mjs', 'node'],
  ['start.sh', 'bash'],
])('the program %s is not read as a job file', async (name, interpreter) => {
  const folder = await mkdtemp(join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  await writeFile(file, 'const a = {\n  b: [1\n};\n');
  await expect(loadJob(file)).rejects.toMatchObject({
    code: 'JOB_INVALID',
    message: `${file} is a program, not a job file.`,
    hint: expect.stringContaining(`tony-ts submit -- ${interpreter} ${file}`),
  });
});
