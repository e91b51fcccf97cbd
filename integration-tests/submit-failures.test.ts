import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { jsonLines, temporaryFolder, until, useCluster } from './harness.ts';

/**
 * Submits to a cluster that is down or rejects the request. Each submit prints one sentence, exits with the documented code, and leaves
 * nothing on HDFS.
 */

const cluster = useCluster();
const STAGING = '/user/alice/.tony-ts';

async function job(lines = ''): Promise<string> {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'source'));
  await writeFile(path.join(folder, 'source', 'hello.sh'), 'echo hello\n');
  const file = path.join(folder, 'job.yaml');
  await writeFile(
    file,
    `name: hello\nframework: none\nruntime: system\nsource: source\ncommand: bash hello.sh\nroles: {worker: {}}\n${lines}`,
  );
  return file;
}

describe('submit to an unavailable cluster', () => {
  afterEach(() => cluster.heal());

  test('exits with 3 and writes nothing to HDFS when the ResourceManager is down', async () => {
    const file = await job();
    const before = await cluster.hdfsTree(STAGING);
    await cluster.kill('resourcemanager');
    const { exitCode, stderr } = await cluster.run(['submit', '--conf', file]);
    expect(stderr).toMatch(/^error: No ResourceManager could be reached/);
    expect(exitCode).toBe(3);
    expect(await cluster.hdfsTree(STAGING)).toEqual(before);
    expect((await cluster.run(['status', 'application_1_0001'])).exitCode).toBe(3);
  });

  test('exits with 3 when HDFS is down, and doctor still runs the checks that do not need it', async () => {
    const file = await job();
    const before = await cluster.hdfsTree(STAGING);
    await cluster.kill('namenode');
    const { exitCode, stderr } = await cluster.run(['submit', '--conf', file]);
    expect(stderr).toMatch(/^error: .*NameNode/);
    expect(exitCode).toBe(3);
    const doctor = await cluster.run(['doctor', '--output', 'json']);
    expect(doctor.exitCode).toBe(4);
    const findings = jsonLines(doctor.stdout);
    expect(Object.fromEntries(findings.map(({ name, state }) => [name, state]))).toMatchObject({
      ResourceManager: 'ok',
      NameNode: 'error',
      identity: 'skipped',
      'staging folder': 'skipped',
      queue: 'ok',
    });
    expect(findings.find(({ name }) => name === 'NameNode')?.hint).toContain('NameNode');
    await cluster.heal();
    expect(await cluster.hdfsTree(STAGING)).toEqual(before);
  });
});

describe('a request that the cluster rejects', () => {
  test('exits with 4 when the staging folder is not writable', async () => {
    const file = await job();
    const { exitCode, stderr } = await cluster.run(['submit', '--conf', file, '--staging', '/user/bob/staging']);
    expect(stderr).toMatch(/^error: Cannot write to the staging folder hdfs:\/\/\S+\/user\/bob\/staging: /);
    expect(exitCode).toBe(4);
    expect((await cluster.hdfsTree('/user/bob')).filter((entry) => entry.path.startsWith('/user/bob/staging'))).toEqual([]);
    // This user has no home directory on HDFS.
    const carol = await cluster.run(['submit', '--conf', file], { env: { HADOOP_USER_NAME: 'carol' } });
    expect(carol).toMatchObject({
      exitCode: 4,
      stderr: expect.stringMatching(/\/user\/carol\/\.tony-ts: hdfs:\S+\/user\/carol does not exist\.\nhint: .*-mkdir -p \/user\/carol;/),
    });
  });

  test("exits with 4, shows every exceeded limit with a fitting value, and uploads nothing when the job exceeds the admin's limits", async () => {
    const folder = await temporaryFolder();
    await writeFile(
      path.join(folder, 'tony-site.yaml'),
      'quotas: {roles: {worker: {instances: 0, task: {memory: 1g}}}, groups: {research: {total: {vcores: 0}}}}\n',
    );
    const before = await cluster.hdfsTree(STAGING);
    const { exitCode, stderr } = await cluster.run(['submit', '--conf', await job()], { env: { TONY_CONF_DIR: folder } });
    expect(exitCode).toBe(4);
    expect(stderr.split('\n').slice(0, 7)).toEqual([
      `error: The job exceeds 3 limits set in ${folder}/tony-site.yaml:`,
      '  quotas.roles.worker.instances: role worker requests 1 task, but the limit is 0',
      '    fits: instances: 0 in total',
      '  quotas.roles.worker.task.memory: each task of role worker requests 2 GiB of memory, but the limit is 1 GiB of memory',
      '    fits: roles.worker.resources.memory: 1024m',
      '  quotas.groups.research.total.vcores: the job requests 2 vcores in total, including its ApplicationMaster, but the limit for all running jobs together is 0 vcores',
      '    fits: at most 0 vcores in total (instances times vcores, plus master.resources.vcores)',
    ]);
    expect(await cluster.hdfsTree(STAGING)).toEqual(before);

    const env = { TONY_CONF_DIR: folder };
    const checked = await cluster.run(['quotas', 'check', await job()], { env });
    expect(checked).toMatchObject({
      exitCode: 4,
      stdout: `${stderr
        .split('\n')
        .slice(0, 7)
        .join('\n')
        .replace(/^error: /, '')}\n`,
    });
    const within = await cluster.run(['quotas', 'check', await job()]);
    expect(within).toMatchObject({ exitCode: 0, stdout: 'hello is within all limits of alice in queue default.\n' });
    const shown = await cluster.run(['quotas'], { env });
    expect(shown.stdout).toMatch(/^role worker +each task +1 GiB$/m);
  });

  test('exits with 2 before any upload when the queue is unknown', async () => {
    const before = { files: await cluster.hdfsTree(STAGING), applications: (await cluster.applications()).length };
    const { exitCode, stderr } = await cluster.run(['submit', '--conf', await job('queue: defualt\n')]);
    expect(stderr).toContain('defualt');
    expect(stderr).toContain('did you mean');
    expect(exitCode).toBe(2);
    expect({ files: await cluster.hdfsTree(STAGING), applications: (await cluster.applications()).length }).toEqual(before);
  });

  test("exits with 4 and names the owner when the request is to kill or view another user's job", async () => {
    const file = await job();
    const { stdout } = await cluster.run(['submit', '--conf', file, '--set', 'command=sleep 100', '--detach']);
    const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
    const bob = { HADOOP_USER_NAME: 'bob' };
    const refused = await cluster.run(['kill', id, '--yes'], { env: bob });
    expect(refused.stderr).toContain(`error: ${id} is a job of alice, and bob is not allowed to kill it.\nhint: Ask alice,`);
    expect(refused.exitCode).toBe(4);
    const denied = `${id} is a job of alice, and bob is not in its acls.view.`;
    await until(async () => (await cluster.run(['status', id])).stdout.includes('worker:0'), {
      describe: 'the ApplicationMaster responds',
    });
    expect((await cluster.run(['status', id], { env: bob })).stdout.replace(/\s+/g, ' ')).toContain(denied);
    const logs = await cluster.run(['logs', id, 'worker:0'], { env: bob });
    expect(logs).toMatchObject({ exitCode: 4, stdout: '', stderr: expect.stringContaining(`hint: ${denied}`) });
    expect((await cluster.run(['kill', id, '--yes'])).exitCode).toBe(0);
  });

  test('exits with 2 when the application is unknown', async () => {
    for (const words of [['status'], ['logs'], ['kill']]) {
      const { exitCode, stderr } = await cluster.run([...words, 'application_1_0001']);
      expect(stderr).toContain('has no application application_1_0001');
      expect(exitCode).toBe(2);
    }
  });
});
