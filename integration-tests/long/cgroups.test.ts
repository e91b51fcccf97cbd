import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { cgroupOf, cgroupsProblem } from '../cluster/cgroups.mjs';
import { jsonLines, noneLeft, temporaryFolder, until, useOwnCluster } from '../harness.ts';

/** A job on NodeManagers that limit CPU and memory with cgroups. Needs Hadoop's program container-executor (docs/development.md). */

const problem = cgroupsProblem();

test('this machine can run the profile cgroups', ({ skip }) => {
  skip(problem !== null, problem ?? '');
});

describe.skipIf(problem !== null)('cgroups', () => {
  const cluster = useOwnCluster('cgroups');

  test("each container is limited to its role's CPU and memory", async () => {
    const folder = await temporaryFolder();
    const file = path.join(folder, 'job.yaml');
    const lines = [
      'name: limited',
      'framework: none',
      'runtime: system',
      'source: null',
      'roles:',
      '  small: {instances: 1, resources: {memory: 256m, vcores: 1}, command: sleep 1000}',
      '  large: {instances: 1, resources: {memory: 512m, vcores: 2}, command: sleep 1000}',
    ];
    await writeFile(file, `${lines.join('\n')}\n`);
    const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
    const status = async (): Promise<JobStatus | null> => {
      const [answer] = jsonLines((await cluster.run(['status', id, '--output', 'json'])).stdout);
      return (answer as JobStatus | undefined) ?? null;
    };
    const { tasks } = await until(
      async () => {
        const now = await status();
        return now?.tasks.every(({ state }) => state === 'running') && now;
      },
      { describe: status },
    );
    const limitsOf = async (role: string): Promise<number[]> => {
      const containerId = tasks.find((task) => task.role === role)?.containerId ?? '';
      const read = async (controller: 'cpu' | 'memory', name: string): Promise<number> =>
        Number(await readFile(path.join(cgroupOf(controller, containerId), name), 'utf8'));
      const pids = (await cluster.containers(id)).filter((each) => each.containerId === containerId && /node/.test(each.command));
      expect(pids.length).toBeGreaterThan(0);
      expect(await readFile(`/proc/${pids[0]?.pid}/cgroup`, 'utf8')).toContain(containerId);
      const [period, quota] = [await read('cpu', 'cpu.cfs_period_us'), await read('cpu', 'cpu.cfs_quota_us')];
      return [(await read('memory', 'memory.limit_in_bytes')) / 2 ** 20, quota / period];
    };
    const [small, large] = [await limitsOf('small'), await limitsOf('large')];
    expect([small[0], large[0]]).toEqual([256, 512]);
    expect((large[1] ?? 0) / (small[1] ?? 1)).toBeCloseTo(2, 1);
    await cluster.run(['kill', id]);
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
    await noneLeft(cluster, id);
  });
});
