import { chmod, cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { containerExecutorProblem } from '../cluster/container-executor.mjs';
import { execute } from '../execute.ts';
import { HandmadeJobs } from '../handmade-job.ts';
import { jsonLines, USER, until, useOwnCluster, type YarnApplication } from '../harness.ts';
import { ALLOWED, EVERYBODYS, IN_ANOTHER_NAME, INVALID, OVER_LIMITS, SITE, TOO_MANY, withWorker } from '../quota-bypass-cases.ts';

/**
 * The attempts of quota-bypass.test.ts on clusters with Kerberos, with the DefaultContainerExecutor and with the LinuxContainerExecutor. It
 * omits the attempts with another file system, which own-cluster/quota-bypass-kerberos.test.ts makes, and the attempts that the command
 * rejects before it contacts the cluster.
 */

vi.setConfig({ testTimeout: 900_000, hookTimeout: 600_000, maxConcurrency: 4 });

const problem = containerExecutorProblem();

test('this machine can run the profile container-executor', ({ skip }) => {
  skip(problem !== null, problem ?? '');
});

describe.each(['kerberos', ...(problem === null ? ['kerberos+container-executor'] : [])])('%s', (profile) => {
  const cluster = useOwnCluster(profile);
  const ended = (id: string): Promise<YarnApplication> => cluster.ended(id);
  let folder: string;
  let handmade: HandmadeJobs;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-bypass-test-'));
    // Containers of other users look for a file in this folder.
    await chmod(folder, 0o755);
    await cluster.hdfsMakeFolder('/apps/tony-ts', '755');
    await cluster.hdfsWrite('/apps/tony-ts/site.yaml', Buffer.from(SITE));
    for (const everybodys of EVERYBODYS) {
      await cluster.hdfsMakeFolder(everybodys, '777');
    }
    const id = await submit(USER, ALLOWED);
    expect(await ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    handmade = await HandmadeJobs.like(id, USER, cluster);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function submit(user: string, job: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const file = path.join(await mkdtemp(path.join(folder, 'job-')), 'job.yaml');
    await writeFile(file, `name: bypass\nframework: none\nruntime: system\ncommand: 'true'\n${job}`);
    const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach'], { env: { ...cluster.environment(user), ...env } });
    const id = /application_\d+_\d+/.exec(stdout)?.[0];
    if (id === undefined) {
      throw new Error(stderr);
    }
    return id;
  }

  describe.concurrent('a job submitted by hand', () => {
    test.each([...OVER_LIMITS, ...IN_ANOTHER_NAME])('fails the ApplicationMaster’s check %s', async (_, changes, expected) => {
      const end = await ended(await handmade.submit(changes));
      expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED', diagnostics: expect.stringMatching(expected) });
    });

    test.each(INVALID)('with %s fails before its ApplicationMaster registers', async (_, changes, expected) => {
      const end = await ended(await handmade.submit(changes));
      expect(end).toMatchObject({ state: 'FAILED', finalStatus: 'FAILED', diagnostics: expect.stringMatching(expected) });
    });
  });

  test('the ApplicationMaster ignores the site file in the user’s own HADOOP_CONF_DIR', async () => {
    const HADOOP_CONF_DIR = path.join(folder, 'cheating');
    await cp(cluster.configuration, HADOOP_CONF_DIR, { recursive: true });
    await writeFile(path.join(HADOOP_CONF_DIR, 'tony-site.yaml'), 'quotas: {}\n');
    const id = await submit(USER, 'heartbeat: {interval: 3s}\nroles: {worker: {instances: 3}}\n', { HADOOP_CONF_DIR });
    expect(await ended(id)).toMatchObject({ finalStatus: 'FAILED', diagnostics: expect.stringMatching(TOO_MANY) });
  });

  test('a job that its user moves to a queue with a lower limit fails', async () => {
    const id = await handmade.submit({ job: withWorker((worker) => ({ ...worker, instances: 2, maxInstances: 2, command: 'sleep 600' })) });
    const running = async () => (await cluster.application(id)).runningContainers === 3;
    await until(running, { describe: () => cluster.application(id) });
    const request = ['-sS', '--negotiate', '-u', ':', '-X', 'PUT', '-H', 'Content-Type: application/json', '-d', '{"queue":"gpu"}'];
    const { stdout } = await execute('curl', [...request, `${cluster.resourceManager}/ws/v1/cluster/apps/${id}/queue`], {
      env: { ...process.env, ...cluster.environment(USER) },
    });
    expect(JSON.parse(stdout)).toMatchObject({ queue: expect.stringMatching(/gpu$/) });
    const moved = /admitted in queue default and moved to queue gpu, .*quotas\.queues\.gpu\.instances/;
    expect(await ended(id)).toMatchObject({ finalStatus: 'FAILED', diagnostics: expect.stringMatching(moved) });
  });

  test('a job under an ID that was requested earlier waits for the job of another user', async () => {
    const early = await handmade.takeId();
    const flag = path.join(folder, 'end');
    const command = `command: 'while [ ! -e ${flag} ]; do sleep 0.1; done'`;
    const bobs = await submit('bob', `roles: {worker: {instances: 2, resources: {memory: 512m, gpus: 1}, ${command}}}\n`);
    const status = async (id: string, user: string): Promise<JobStatus | null> => {
      const { stdout } = await cluster.run(['status', id, '--output', 'json'], { env: cluster.environment(user) });
      return (jsonLines(stdout)[0] as unknown as JobStatus | undefined) ?? null;
    };
    const reaches = (id: string, user: string, state: JobStatus['state']): Promise<JobStatus> =>
      until(
        async () => {
          const now = await status(id, user);
          return now?.state === state && now;
        },
        { describe: () => status(id, user) },
      );
    await reaches(bobs, 'bob', 'running');

    await handmade.submit({
      id: early,
      job: withWorker((worker) => ({ ...worker, instances: 2, maxInstances: 2, resources: { ...worker.resources, gpus: 1 } })),
    });
    const { message } = await reaches(early, USER, 'waiting');
    expect(message).toContain(`${bobs} holds 2 gpus, and this job requests 2 gpus`);
    await writeFile(flag, '');
    expect(await ended(early)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    expect(await ended(bobs)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  });
});
