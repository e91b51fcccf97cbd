import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openJob, run, start, TonyError } from '../client/index.ts';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { ROOT } from './command.ts';
import { execute } from './execute.ts';
import { noneLeft, temporaryFolder, until, useCluster } from './harness.ts';

/** `run` calls functions on workers, on this machine and on a cluster. `start` returns a handle that controls the job. */

const cluster = useCluster();

async function local(): Promise<{ instances: number; memory: string; local: true; localRoot: string }> {
  return { instances: 2, memory: '1g', local: true, localRoot: path.join(await temporaryFolder(), 'root') };
}

test('the example calls two functions on this machine and continues with their values', async () => {
  const { tree } = await ensureRuntime();
  const folder = await temporaryFolder();
  const { stdout } = await execute(path.join(tree, 'bin', 'node'), ['main.ts', '--local'], {
    cwd: path.join(ROOT, 'examples', 'run-function'),
    env: { ...process.env, TONY_LOCAL_DIR: folder, HADOOP_CONF_DIR: '' },
  });
  expect(stdout).toMatch(/^mean of 1000 images: 31\.\d\d$/m);
  expect(Number(/^accuracy after 938 steps: ([\d.]+) %$/m.exec(stdout)?.[1])).toBeGreaterThan(93);
});

test('run rejects with the error that a function throws on a worker, and with the last lines of the task', async () => {
  const options = await local();
  const failing = run(options, async (cluster) => {
    const check = (): void => {
      if (cluster.rank === 1) {
        throw new RangeError('rank 1 does not like this');
      }
    };
    console.error('about to check');
    check();
    await cluster.barrier();
  });
  const error = await failing.catch((thrown: unknown) => thrown as TonyError);
  expect(error).toBeInstanceOf(TonyError);
  expect(error?.code).toBe('JOB_FAILED');
  expect(error?.message).toMatch(/^local_\d+_0001 has failed in worker:1: RangeError: rank 1 does not like this\n/);
  expect(error?.message).toMatch(/about to check[\s\S]*at check \(/);
});

test('run rejects a return value that JSON cannot represent, with an error that names the chief and without a restart', async () => {
  const options = { ...(await local()), instances: 1, maxRestarts: 2 };
  await expect(run(options, async () => new Map([[1, 2]]))).rejects.toThrow(/worker:0: TonyError: the returned value is a Map/);
  const history = path.join(options.localRoot, 'history');
  const [job = ''] = await readdir(history);
  const final = JSON.parse(await readFile(path.join(history, job, 'final.json'), 'utf8')) as JobStatus;
  expect(final.generations).toBe(1);
  expect(final.message).toMatch(/^worker:0 failed with an error that a restart would repeat: its program on localhost exited with code 1/);
});

test('run calls an exported function of a module with imports, and passes arguments and result as JSON', async () => {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'lib'));
  await writeFile(
    path.join(folder, 'lib', 'scale.ts'),
    'export const scale = (values: number[], by: number): number[] => values.map((each) => each * by);\n',
  );
  await writeFile(
    path.join(folder, 'job.ts'),
    `import type { Cluster } from 'tony-ts/training';
import { scale } from './lib/scale.ts';
export async function work(cluster: Cluster, { values, by }: { values: number[]; by: number }) {
  return cluster.rank === 0 ? { scaled: scale(values, by), text: 'größer "\\n', none: null } : 'nobody asks';
}
export const nothing = () => undefined;
`,
  );
  const options = { ...(await local()), instances: 1 };
  const module = path.join(folder, 'job.ts');
  expect(await run(options, { module, export: 'work', args: [{ values: [1, 2.5], by: 2 }] })).toEqual({
    scaled: [2, 5],
    text: 'größer "\n',
    none: null,
  });
  expect(await run(options, { module, export: 'nothing' })).toBeUndefined();
  await expect(run(options, { module, export: 'wrok' })).rejects.toThrow(/exports no function wrok \(it exports: nothing, work\)/);
});

test("on a cluster, start returns a handle with logs, status and the chief's result, and openJob finds the job by its id", async () => {
  const options = {
    instances: 4,
    memory: '1g',
    env: cluster.clientEnvironment(),
    conf: { master: { resources: { memory: '512m' } } },
  } as const;
  const job = await start(
    options,
    async (cluster, base: number) => {
      const sum = Float32Array.of(cluster.share.index);
      await cluster.allReduce(sum);
      console.log(`hello from ${cluster.rank} of ${cluster.worldSize}`);
      return { sum: base + (sum[0] ?? 0), rank: cluster.rank };
    },
    100,
  );
  expect(job.id).toMatch(/^application_\d+_\d{4}$/);
  expect(job.trackingUrl).toContain(`/proxy/${job.id}/`);
  const again = await openJob<{ sum: number; rank: number }>(job.id, { env: cluster.clientEnvironment() });
  const lines: string[] = [];
  for await (const { task, text } of again.logs()) {
    if (text.startsWith('hello')) {
      lines.push(`${task} ${text}`);
    }
  }
  expect(await again.report()).toMatchObject({ state: 'succeeded', message: '' });
  expect(lines.sort()).toEqual([0, 1, 2, 3].map((rank) => `worker:${rank} hello from ${rank} of 4`));
  expect(await again.result()).toEqual({ sum: 106, rank: 0 });
  expect(await job.result()).toEqual({ sum: 106, rank: 0 });
  expect(await job.status()).toMatchObject({ state: 'succeeded', yarn: { state: 'FINISHED', finalStatus: 'SUCCEEDED' } });
  again.close();
  job.close();
  await noneLeft(cluster, job.id);
});

test('on a cluster, an exception in a worker and a kill of the job both reject the result', async () => {
  const options = {
    instances: 2,
    memory: '1g',
    env: cluster.clientEnvironment(),
    conf: { master: { resources: { memory: '512m' } } },
  } as const;
  const failing = run(options, async ({ rank }) => {
    if (rank === 1) {
      throw new TypeError('not on the cluster');
    }
    await new Promise((done) => setTimeout(done, 60_000));
  });
  await expect(failing).rejects.toThrow(/^application_\d+_\d+ has failed in worker:1: TypeError: not on the cluster\n/);
  const job = await start({ ...options, instances: 1 }, () => new Promise<void>((done) => setTimeout(done, 300_000)));
  await until(async () => (await job.status()).tasks[0]?.state === 'running', { describe: () => job.status() });
  expect(await job.kill()).toMatchObject({ killed: true });
  await expect(job.result()).rejects.toThrow(/was killed/);
  job.close();
  await noneLeft(cluster, job.id);
});
