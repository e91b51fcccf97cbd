import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFailed, test } from 'vitest';
import { CREDENTIALS } from '../conf/job.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { decodeCredentials } from '../hadoop/rpc/credentials.ts';
import { parseEntries } from '../web/history-files.ts';
import { isAlive } from './executor/test-master.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, until, useCluster, type YarnApplication } from './harness.ts';

const cluster = useCluster();

/** Writes its pid to `$OUT/<role>-<index>-<generation>` and runs until the file `go` exists. */
const PROGRAM = [
  'me=$TONY_ROLE-$TONY_INDEX',
  'echo $$ > $OUT/tmp-$me && mv $OUT/tmp-$me $OUT/$me-$TONY_GENERATION',
  'sleep 1000 &',
  'while [ ! -e $OUT/go ]; do sleep 0.1; done',
  'kill %1',
];

class Job {
  readonly id: string;
  readonly out: string;

  constructor(id: string, out: string) {
    this.id = id;
    this.out = out;
  }

  pid(task: string, generation: number): Promise<number> {
    return until(() => Number(readFileSync(path.join(this.out, `${task}-${generation}`), 'utf8')), {
      describe: async () => ({ awaited: `${task} in generation ${generation}`, status: await this.status().catch(String) }),
    });
  }

  async programs(generation: number): Promise<[number, number]> {
    return [await this.pid('worker-0', generation), await this.pid('worker-1', generation)];
  }

  status(): Promise<JobStatus> {
    return cluster.jobStatus(this.id);
  }

  async process(bundle: string, containerId?: string | null): Promise<number> {
    const all = await cluster.containers(this.id);
    const found = all.find(
      (each) =>
        each.command.includes(bundle) &&
        /node\b/.test(each.command.split(' ')[0] ?? '') &&
        (containerId === undefined || each.containerId === containerId),
    );
    if (found === undefined) {
      throw new Error(`no ${bundle} of ${containerId ?? this.id} in ${JSON.stringify(all, null, 1)}`);
    }
    return found.pid;
  }

  async executor(index: number): Promise<number> {
    const { tasks } = await this.status();
    return this.process('task-executor.mjs', tasks[index]?.containerId);
  }

  async final(): Promise<JobStatus> {
    return JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${this.id}/final.json`)).toString()) as JobStatus;
  }

  async succeeds(): Promise<JobStatus> {
    writeFileSync(path.join(this.out, 'go'), '');
    const application = await cluster.ended(this.id);
    expect(application).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
    await noneLeft(cluster, this.id);
    const staged = await cluster.hdfsTree(`/user/${USER}/.tony-ts/jobs`);
    expect(staged.filter((entry) => entry.path.includes(this.id))).toEqual([]);
    return this.final();
  }
}

interface Options {
  readonly roles?: string;
  readonly lines?: readonly string[];
  readonly command?: readonly string[];
  readonly master?: string;
}

async function jobFile({ roles, lines = [], command = PROGRAM, master = '512m' }: Options): Promise<{ file: string; out: string }> {
  const folder = await temporaryFolder();
  const out = path.join(folder, 'out');
  mkdirSync(out);
  const yaml = [
    'name: bad-day',
    'framework: none',
    'runtime: system',
    `env: {OUT: ${out}}`,
    'command: |',
    ...command.map((line) => `  ${line}`),
    `roles: ${roles ?? '{worker: {instances: 2, kind: gang, resources: {memory: 512m, gpus: 1}}}'}`,
    `master: {resources: {memory: ${master}}}`,
    ...lines,
  ];
  const file = path.join(folder, 'job.yaml');
  writeFileSync(file, `${yaml.join('\n')}\n`);
  return { file, out };
}

/** The timeouts are long enough for an executor on a busy machine, and short enough to detect a silent executor soon. */
const HEARTBEAT = 'heartbeat: {interval: 500ms, missed: 12}';

async function startJob({ heartbeat = HEARTBEAT, ...options }: Options & { heartbeat?: string } = {}): Promise<Job> {
  const { file, out } = await jobFile({ ...options, lines: [heartbeat, ...(options.lines ?? [])] });
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const job = new Job(/application_\d+_\d+/.exec(stdout)?.[0] ?? '', out);
  // If the test fails, the next test still needs the cluster's resources.
  onTestFailed(() => cluster.run(['kill', job.id]).then(() => undefined));
  return job;
}

/** Runs a job until it ends. Returns the client's last line, YARN's report and the output of `status`. */
async function failure(options: Options): Promise<{ client: string; yarn: YarnApplication; status: string }> {
  const { file } = await jobFile(options);
  const { stdout, exitCode } = await cluster.run(['submit', '--conf', file, '--output', 'json']);
  expect(exitCode).toBe(1);
  const result = jsonLines(stdout).at(-1) as { state: string; id: string; message: string };
  expect(result.state).toBe('failed');
  const yarn = await cluster.ended(result.id);
  expect(yarn).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
  const status = await cluster.run(['status', result.id]);
  await noneLeft(cluster, result.id);
  return { client: result.message, yarn, status: status.stdout };
}

describe('a job continues', () => {
  test('when an executor or a program is killed or stopped, until the restarts of the task are used up', async () => {
    const job = await startJob({
      roles: '{worker: {instances: 2, kind: gang, restart: {maxRestarts: 4}, resources: {memory: 512m, gpus: 1}}}',
    });
    const faults = [
      ['executor', 'SIGKILL'],
      ['executor', 'SIGSTOP'],
      ['program', 'SIGKILL'],
      ['program', 'SIGSTOP'],
    ] as const;
    let programs = await job.programs(1);
    for (const [index, [who, signal]] of faults.entries()) {
      process.kill(who === 'executor' ? await job.executor(1) : programs[1], signal);
      const next = await job.programs(index + 2);
      // Worker 0's executor ends the old program before it starts the new one. Worker 1's executor may be unreachable, so the container of
      // the old program may still be running when the replacement starts. The ApplicationMaster rejects the old generation.
      expect(isAlive(programs[0]), `${who} ${signal}`).toBe(false);
      const old = programs[1];
      await until(() => !isAlive(old), {
        describe: `the old program still runs after ${signal} of the ${who}`,
        everyMs: 20,
      });
      programs = next;
    }
    expect((await job.status()).generations).toBe(5);
    process.kill(await job.executor(1), 'SIGKILL');
    const yarn = await cluster.ended(job.id);
    expect(yarn).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
    expect(yarn.diagnostics).toMatch(/worker:1/);
    await noneLeft(cluster, job.id);
  });

  test('with the same programs when the ResourceManager and the NameNode restart, and when a second ApplicationMaster takes over', async () => {
    const job = await startJob();
    const programs = await job.programs(1);
    const running = (attempt: number) =>
      cluster.reached(job.id, ({ masterAttempt, state }) => masterAttempt === attempt && state === 'running');
    await cluster.kill('resourcemanager');
    await cluster.kill('namenode');
    await cluster.heal();
    const before = await running(1);
    expect(programs.filter(isAlive)).toEqual(programs);
    process.kill(await job.process('application-master.mjs'), 'SIGKILL');
    const after = await running(2);
    expect(after.tasks.map(({ containerId }) => containerId)).toEqual(before.tasks.map(({ containerId }) => containerId));
    expect(programs.filter(isAlive)).toEqual(programs);
    const final = await job.succeeds();
    expect(final).toMatchObject({ generations: 1, masterAttempt: 2 });
    expect(final.tasks.map(({ attempts, failures }) => [attempts, failures])).toEqual([
      [1, 0],
      [1, 0],
    ]);
  });

  test('in the same stage when its ApplicationMaster is killed while roles wait for other roles', async () => {
    const first = (then: string) => `if mkdir $OUT/ran-$TONY_ROLE; then ${then}; fi`;
    // Saves its state 0.5 s after SIGTERM. YARN itself would send SIGKILL after 250 ms.
    const saving = 'trap "sleep 0.5; touch $OUT/saved; exit 1" TERM; sleep 1000 & wait';
    const resources = 'resources: {memory: 256m}';
    const job = await startJob({
      roles: [
        '',
        `  server: {kind: independent, command: exec sleep 1000, endAfter: {role: worker}, ${resources}}`,
        `  prepare: {kind: independent, command: '${first('exit 75')}; while [ ! -e $OUT/go ]; do sleep 0.1; done', restart: {onExitCodes: [75]}, ${resources}}`,
        `  worker: {command: '${first(saving)}', timeout: 2s, after: [{role: prepare}, {role: server, state: running}], ${resources}}`,
      ].join('\n'),
    });
    const inStage = (attempt: number) =>
      cluster.reached(job.id, ({ masterAttempt, tasks }) => {
        const prepare = tasks.find(({ role }) => role === 'prepare');
        return masterAttempt === attempt && prepare?.state === 'running' && prepare.failures === 1;
      });
    const before = await inStage(1);
    process.kill(await job.process('application-master.mjs'), 'SIGKILL');
    const after = await inStage(2);
    expect(after.tasks.map(({ containerId }) => containerId)).toEqual(before.tasks.map(({ containerId }) => containerId));
    expect(after.tasks.find(({ role }) => role === 'worker')).toMatchObject({ state: 'requested', containerId: null });
    expect((await cluster.run(['status', job.id])).stdout).toMatch(/Role worker waits until prepare has succeeded and server is running/);
    expect((await cluster.run(['status', job.id])).stdout).toMatch(/worker:0 +waits for prepare, server/);
    const final = await job.succeeds();
    expect(final.tasks.map(({ role, state, failures }) => [role, state, failures])).toEqual([
      ['server', 'stopped', 0],
      ['prepare', 'succeeded', 1],
      ['worker', 'succeeded', 1],
    ]);
    expect(final.tasks.at(-1)?.failure?.cause.kind).toBe('time-limit');
    expect(existsSync(path.join(job.out, 'saved'))).toBe(true);
    const { stdout } = await cluster.run(['events', job.id]);
    const at = (text: RegExp) => stdout.split('\n').findIndex((line) => text.test(line));
    const moments = [at(/prepare:0 +program-ended +exited with code 0/), at(/worker +role-released/), at(/worker:0 +task-requested/)];
    expect(moments).toEqual(moments.filter((moment) => moment >= 0).sort((a, b) => a - b));
  });
});

test.each([
  ['the tasks of a lost node restart', false],
  ['the tasks and the ApplicationMaster of a lost node restart', true],
])('%s, and their old programs on the node end', async (_, withMaster) => {
  // Besides the ApplicationMaster, a node has room for only one such container.
  const roles = '{worker: {instances: 2, kind: gang, resources: {memory: 512m, gpus: 3}}}';
  // The ResourceManager declares the node lost before the ApplicationMaster detects that a suspended executor sends no heartbeats.
  const job = await startJob({ roles, ...(!withMaster && { heartbeat: 'heartbeat: {interval: 500ms, missed: 240}' }) });
  const first = await job.programs(1);
  const master = await job.process('application-master.mjs');
  const [, port] = /\0NM_PORT=(\d+)\0/.exec(`\0${readFileSync(`/proc/${master}/environ`, 'utf8')}`) ?? [];
  const isFirst = Number(port) === cluster.ports.nodemanager1.containers;
  const lost = isFirst === withMaster ? 'nodemanager1' : 'nodemanager2';
  const lostPort = cluster.ports[lost].containers;
  const index = first.findIndex((pid) => nodePortOf(pid) === lostPort);
  // An executor stops its program within milliseconds, too soon for the status to show the order.
  const stopped = withMaster ? null : await job.executor(index);
  if (stopped !== null) {
    process.kill(stopped, 'SIGSTOP');
  }
  try {
    await cluster.kill(lost);
    await until(async () => (await job.status()).generations > 1 || (await job.status()).state !== 'running', {
      describe: () => job.status().catch(String),
    });
    if (stopped !== null) {
      const [orphan, ...others] = (await job.status()).orphanedContainers;
      expect(orphan).toMatchObject({ role: 'worker', index, node: expect.stringMatching(new RegExp(`:${lostPort}$`)) });
      expect(orphan?.mayRunForMs).toBeGreaterThan(0);
      expect(others).toEqual([]);
      const { stdout } = await cluster.run(['status', job.id]);
      expect(stdout.replace(/\s+/g, ' ')).toContain(`worker:${index} may still be running on ${orphan?.node}`);
    }
  } finally {
    if (stopped !== null) {
      process.kill(stopped, 'SIGCONT');
    }
    await cluster.heal();
  }
  await job.programs(2);
  // The ApplicationMaster has ordered the lost node's executor to stop its program, which may take the whole grace period.
  await until(() => first.filter(isAlive).length === 0, { describe: 'the old programs still run' });
  // If the executor has ended before it could connect to the new ApplicationMaster, its program may still be running for all that this
  // ApplicationMaster knows.
  await until(async () => (await job.status()).orphanedContainers.length === 0, { describe: () => job.status().catch(String) });
  const final = await job.succeeds();
  expect(final.tasks.map(({ failures }) => failures)).toEqual([0, 0]);
  expect([final.masterAttempt, final.orphanedContainers]).toEqual([withMaster ? 2 : 1, []]);
  const events = (await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${job.id}/events-${final.masterAttempt}.jsonl`)).toString();
  const losses = parseEntries(events).filter(({ type }) => type === 'node-lost');
  expect(losses).toMatchObject([{ node: expect.stringMatching(new RegExp(`:${lostPort}$`)) }]);
});

/**
 * Like PROGRAM, but its process group ignores SIGTERM. The program writes its start time and the newest time at which it was alive (ms) to
 * a separate file.
 */
const LOGGING_PROGRAM = [
  "trap '' TERM",
  'me=$TONY_ROLE-$TONY_INDEX',
  'mine=$OUT/run-$me-$$',
  'date +%s%3N > $mine.start',
  '(while :; do date +%s%3N > $mine.tmp && mv $mine.tmp $mine.last; sleep 0.05; done) &',
  'echo $$ > $OUT/tmp-$me-$$ && mv $OUT/tmp-$me-$$ $OUT/$me-$TONY_GENERATION',
  'while [ ! -e $OUT/go ]; do sleep 0.1; done',
  'kill -9 %1',
];

interface Run {
  readonly pid: number;
  readonly start: number;
  readonly last: number;
}

function runsOf(job: Job, task: string): Run[] {
  const time = (name: string) => Number(readFileSync(path.join(job.out, name), 'utf8'));
  return readdirSync(job.out)
    .flatMap((name) => new RegExp(`^run-${task}-(\\d+)\\.last$`).exec(name)?.[1] ?? [])
    .map((pid) => ({ pid: Number(pid), start: time(`run-${task}-${pid}.start`), last: time(`run-${task}-${pid}.last`) }))
    .sort((a, b) => a.start - b.start);
}

/** Fills a node, so that YARN places another job's containers on the other node. */
async function fill(resources: string): Promise<Job> {
  const job = await startJob({ roles: `{filler: {instances: 1, resources: {${resources}}}}` });
  await job.pid('filler-0', 1);
  return job;
}

async function remove(job: Job): Promise<void> {
  await cluster.killApplication(job.id);
  await noneLeft(cluster, job.id);
}

/** Returns the port of the NodeManager that started a container's process, or null if the process has ended. */
function nodePortOf(pid: number): number | null {
  try {
    return Number(/\0NM_PORT=(\d+)\0/.exec(`\0${readFileSync(`/proc/${pid}/environ`, 'utf8')}`)?.[1]);
  } catch {
    return null;
  }
}

/** Runs a job whose evaluators are both on the node that is lost. The ApplicationMaster runs on the same node or on the other one. */
async function loseNodeOfEvaluators(withMaster: boolean): Promise<void> {
  // The GPU requests determine the node of the evaluators, and the memory request determines the node of the ApplicationMaster.
  const fillers = [await fill(withMaster ? 'memory: 7000m, gpus: 3' : 'memory: 1500m, gpus: 3')];
  if (!withMaster) {
    fillers.push(await fill('memory: 7000m'));
  }
  const worker = 'worker: {instances: 2, kind: gang, resources: {memory: 256m}}';
  const evaluator = 'evaluator: {instances: 2, kind: independent, resources: {memory: 512m, gpus: 2}}';
  const job = await startJob({ roles: `{${worker}, ${evaluator}}`, master: '2g', command: LOGGING_PROGRAM });
  const master = await until(() => job.process('application-master.mjs'), { describe: 'no ApplicationMaster' });
  if (!withMaster) {
    await remove(fillers[1] as Job);
  }
  const evaluators = ['evaluator-0', 'evaluator-1'];
  const [first] = await Promise.all([job.pid('evaluator-0', 1), job.pid('evaluator-1', 1), job.programs(1)]);
  await remove(fillers[0] as Job);
  const port = nodePortOf(first);
  expect(nodePortOf(master) === port).toBe(withMaster);
  const there = (await cluster.containers(job.id)).filter(({ pid }) => nodePortOf(pid) === port);
  await cluster.kill(port === cluster.ports.nodemanager1.containers ? 'nodemanager1' : 'nodemanager2');
  try {
    // If the first ApplicationMaster ends before it has saved that the old programs have exited, the second one waits for their lease.
    await until(() => evaluators.every((task) => runsOf(job, task).length === 2), {
      describe: async () => ({ runs: evaluators.map((task) => runsOf(job, task)), status: await job.status().catch(String) }),
    });
    for (const task of evaluators) {
      const [before, after] = runsOf(job, task);
      expect(before?.last, task).toBeLessThanOrEqual(after?.start ?? 0);
      expect(isAlive(before?.pid ?? 0), task).toBe(false);
    }
    // The node is still lost, so no NodeManager has ended its processes.
    await until(() => there.every(({ pid }) => !isAlive(pid)), {
      describe: () => there.filter(({ pid }) => isAlive(pid)),
    });
  } finally {
    await cluster.heal();
  }
  const final = await job.succeeds();
  expect(final.tasks.map(({ failures }) => failures)).toEqual([0, 0, 0, 0]);
  expect(final.masterAttempt).toBe(withMaster ? 2 : 1);
}

test.each([
  ['evaluators', false],
  ['evaluators and the ApplicationMaster', true],
])('the programs of a lost node with %s end before new ones start, and no process of the job remains there', async (_, withMaster) => {
  await loseNodeOfEvaluators(withMaster);
});

test.each([
  ['a node label that does not exist', '{worker: {nodeLabel: nowhere}}', 'no node label nowhere', 'roles.worker.nodeLabel'],
  [
    'more GPUs at the same time than the cluster has',
    '{worker: {instances: 12, kind: gang, resources: {memory: 512m, gpus: 1}}}',
    'queue root can provide at most 8 gpus',
    'roles.worker.instances (12)',
  ],
])('submit refuses a job that requests %s, and names the key to change', async (_, roles, reason, key) => {
  const { file } = await jobFile({ roles });
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file]);
  expect({ stdout: stdout.includes('application_'), exitCode }).toEqual({ stdout: false, exitCode: 4 });
  const text = stderr.replace(/\s+/g, ' ');
  expect(text).toContain(reason);
  expect(text).toContain(key);
});

describe('a job fails with a message that names the cause and the next step', () => {
  test('when YARN kills a program over its memory limit', async () => {
    const { client, yarn } = await failure({
      roles: '{worker: {instances: 1, restart: {policy: never}, resources: {memory: 256m}}}',
      command: ["node -e 'const all = []; setInterval(() => all.length < 20 && all.push(Buffer.alloc(32 << 20, 1)), 100)'"],
    });
    for (const text of [client, yarn.diagnostics]) {
      expect(text).toMatch(/memory/);
      expect(text).toContain('roles.worker.resources.memory');
    }
  });
});

test('status, list, logs and top report an ApplicationMaster that hangs, and the job continues when it responds again, until kill ends all its processes', async () => {
  const job = await startJob({ command: ['echo alive', ...PROGRAM] });
  const programs = await job.programs(1);
  const master = await job.process('application-master.mjs');
  // `logs` needs this file when the ApplicationMaster does not respond.
  const events = `/user/${USER}/.tony-ts/history/${job.id}/events-1.jsonl`;
  await until(async () => (await cluster.hdfsRead(events)).includes('container_'), { describe: 'the history names no container' });
  const sentence = /The ApplicationMaster has not answered for \d+ s\./;
  process.kill(master, 'SIGSTOP');
  try {
    for (const command of [['status', job.id], ['list'], ['top', job.id]]) {
      const shown = await cluster.run(command);
      expect(shown, command.join(' ')).toMatchObject({ stdout: expect.stringMatching(sentence), exitCode: 0 });
    }
    const { stdout } = await cluster.run(['status', job.id, '--output', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({ state: 'running', masterSilentMs: expect.any(Number) });
    const logs = await cluster.run(['logs', job.id, 'worker:0']);
    expect(logs).toMatchObject({ stdout: expect.stringContaining('alive'), stderr: expect.stringMatching(sentence), exitCode: 0 });
  } finally {
    process.kill(master, 'SIGCONT');
  }
  await until(async () => !sentence.test((await cluster.run(['status', job.id])).stdout), {
    describe: () => job.status(),
  });
  expect(programs.filter(isAlive)).toEqual(programs);
  expect(await job.status()).toMatchObject({ state: 'running', generations: 1, masterAttempt: 1 });
  expect((await cluster.run(['kill', job.id])).exitCode).toBe(0);
  expect(await cluster.ended(job.id)).toMatchObject({ finalStatus: 'KILLED' });
  await noneLeft(cluster, job.id);
  expect(programs.filter(isAlive)).toEqual([]);
});

test('only its owner sees a job, and secrets appear in no arguments, environments, logs, job.json, history or YARN responses', async () => {
  const job = await startJob({ command: ['echo to stdout; echo to stderr >&2', ...PROGRAM] });
  await job.programs(1);
  expect(await job.status()).toMatchObject({ id: job.id, state: 'running' });
  const page = async (user: string) =>
    (await fetch(`${cluster.resourceManager}/proxy/${job.id}/tony/api/v1/job?user.name=${user}`, { signal: AbortSignal.timeout(10_000) }))
      .status;
  expect([await page('bob'), await page('dr.who')]).toEqual([403, 403]);
  const master = await job.process('application-master.mjs');
  const [, file = ''] = /\0HADOOP_TOKEN_FILE_LOCATION=([^\0]*)\0/.exec(`\0${readFileSync(`/proc/${master}/environ`, 'utf8')}`) ?? [];
  const { secrets, tokens } = decodeCredentials(readFileSync(file));
  const jobSecret = Buffer.from(secrets.get(CREDENTIALS.jobSecret)?.reveal() ?? []);
  const password = Buffer.from(tokens[0]?.token.password.reveal() ?? []);
  const key = Buffer.from(secrets.get(CREDENTIALS.privateKey)?.reveal() ?? []).toString();
  const ringKey = (JSON.parse(readFileSync(await taskFile(job), 'utf8')) as { ringKey: string }).ringKey;
  const canaries = [jobSecret, password]
    .flatMap((bytes) => [bytes.toString('hex'), bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('latin1')])
    .concat(key.split('\n')[1] ?? '', ringKey);
  expect(canaries.every((canary) => canary.length >= 20)).toBe(true);

  const places = new Map<string, string>([['the status', JSON.stringify(await job.status())]]);
  const processes = await cluster.containers(job.id);
  const programs = await job.programs(1);
  for (const { pid, command } of processes) {
    for (const what of ['cmdline', 'environ']) {
      try {
        places.set(`${what} of ${command}`, readFileSync(`/proc/${pid}/${what}`, 'latin1'));
      } catch (error) {
        // The process may have ended in the meantime.
        if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) {
          throw error;
        }
      }
    }
  }
  // The user can also read the launch scripts and the files next to them.
  for (const pid of [master, ...programs]) {
    const folder = readlinkSync(`/proc/${pid}/cwd`);
    for (const name of readdirSync(folder)) {
      if (!/tokens|^task-/.test(name) && statSync(path.join(folder, name)).isFile()) {
        places.set(`${folder}/${name}`, readFileSync(path.join(folder, name), 'latin1'));
      }
    }
  }
  const logFolders = [master, ...programs].map(
    (pid) => /\0LOG_DIRS=([^\0]*)\0/.exec(`\0${readFileSync(`/proc/${pid}/environ`, 'utf8')}`)?.[1] ?? '',
  );
  for (const folder of logFolders) {
    for (const name of readdirSync(folder)) {
      places.set(`log ${folder}/${name}`, readFileSync(path.join(folder, name), 'latin1'));
    }
  }
  const read = [...places.keys()].filter((place) => /log .*\/(tony\.log|stdout|stderr)$/.test(place));
  expect(read).toHaveLength(8);
  for (const what of ['', '/appattempts', `/appattempts/${job.id.replace('application', 'appattempt')}_000001/containers`]) {
    const answer = await fetch(`${cluster.resourceManager}/ws/v1/cluster/apps/${job.id}${what}?user.name=${USER}`);
    places.set(`REST ${what}`, await answer.text());
  }
  for (const entry of await cluster.hdfsTree(`/user/${USER}/.tony-ts/jobs/${job.id}`)) {
    if (entry.type === 'FILE') {
      places.set(entry.path, (await cluster.hdfsRead(entry.path)).toString('latin1'));
    }
  }
  await job.succeeds();
  for (const entry of await cluster.hdfsTree(`/user/${USER}/.tony-ts/history/${job.id}`)) {
    if (entry.type === 'FILE') {
      places.set(entry.path, (await cluster.hdfsRead(entry.path)).toString('latin1'));
    }
  }
  expect(places.size).toBeGreaterThan(25);
  for (const canary of canaries) {
    expect([...places].filter(([, text]) => text.includes(canary)).map(([place]) => place)).toEqual([]);
  }
});

async function taskFile(job: Job): Promise<string> {
  const [pid] = await job.programs(1);
  const [, file = ''] = /\0TONY_TASK_FILE=([^\0]*)\0/.exec(`\0${readFileSync(`/proc/${pid}/environ`, 'utf8')}`) ?? [];
  expect(statSync(file).mode & 0o777).toBe(0o600);
  return file;
}
