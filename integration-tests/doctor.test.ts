import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { runCommand } from './command.ts';
import { jsonLines, temporaryFolder, useCluster } from './harness.ts';

/** Runs the first commands of an admin and of a new user: `doctor`, `init` and `list`. */

const cluster = useCluster();

interface Finding {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly hint: string;
}

async function doctor(...words: string[]): Promise<{ exitCode: number | null; findings: Map<string, Finding> }> {
  const { exitCode, stdout } = await cluster.run(['doctor', '--output', 'json', ...words]);
  return { exitCode, findings: new Map((jsonLines(stdout) as unknown as Finding[]).map((finding) => [finding.name, finding])) };
}

test('every check of doctor passes on a suitable cluster', async () => {
  const { exitCode, findings } = await doctor();
  expect([...findings.values()].filter(({ state }) => state !== 'ok')).toEqual([]);
  expect(exitCode).toBe(0);
  expect(findings.get('ResourceManager')?.message).toMatch(/^Hadoop 3\.\d+\.\d+, STARTED, ACTIVE$/);
  expect(findings.get('identity')?.message).toBe('alice, in research');
  expect(findings.get('clocks')?.message).toBe('all clocks agree within 5 s');
  expect(findings.get('nodes')?.message).toMatch(/^2 active; 8 GPUs; the largest .* 8 GiB, 8 vcores, 4 yarn\.io\/gpu$/);
  expect(findings.get('queue access')?.message).toBe('alice may submit to default');
  expect(findings.get('node settings')?.message).toMatch(
    /^localhost:\d+ keeps 10 GiB of unpacked archives and does not check virtual memory$/,
  );
  expect(findings.get('failover')?.message).toContain('within 40 s; programs continue without one for 2 min');
  expect(findings.get('HDFS space')?.message).toMatch(/^[\d.]+ [GT]B are free$/);
  expect(findings.get('local disk')?.message).toMatch(/^the runtime has been built \(2\d\d(\.\d)? MB, in /);
  const leftovers = (await cluster.hdfsTree('/user/alice/.tony-ts')).filter((entry) => entry.path.includes('doctor-'));
  expect(leftovers).toEqual([]);
});

test('doctor --probe runs a container on both nodes, which connect to each other and read HDFS', async () => {
  const { exitCode, stdout, stderr } = await cluster.run(['doctor', '--probe', '--output', 'json']);
  expect(exitCode, stderr).toBe(0);
  const lines = jsonLines(stdout);
  const nodes = lines.filter(({ node }) => node !== undefined);
  expect(new Set(nodes.map(({ node }) => node)).size).toBe(2);
  for (const node of nodes) {
    expect(node).toMatchObject({
      notProbed: '',
      runtime: expect.stringMatching(/^v22\./),
      glibc: expect.stringMatching(/^2\.\d+$/),
      storage: '',
      tried: 1,
      unreached: [],
    });
  }
  // The cluster simulates its GPUs, and runs the containers of all users as the user who started it.
  expect(lines.slice(-2).map(({ name, state }) => `${name} ${state}`)).toEqual(['GPUs warning', 'container user warning']);
  expect((await cluster.hdfsTree('/user/alice/.tony-ts/jobs')).filter(({ path: file }) => file.endsWith('probe.json'))).toEqual([]);

  // Submissions compare their packages with the recorded nodes.
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'requirements.txt'), 'six==1.17.0\n');
  const python = { requirements: 'requirements.txt', version: '3.3' };
  const job = { name: 'python', framework: 'none', runtime: 'system', command: 'python3 -V', python, roles: { worker: {} } };
  await writeFile(path.join(folder, 'job.yaml'), JSON.stringify(job));
  expect(await cluster.run(['submit', '--dry-run', '--conf', path.join(folder, 'job.yaml')])).toMatchObject({
    exitCode: 4,
    stderr: expect.stringMatching(
      /work on none of the 2 nodes .*the packages are for Python 3\.3, and the node has 3\.[\s\S]*Set version: '3\.\d+'/,
    ),
  });
});

test('doctor --probe refuses a node that does not exist', async () => {
  expect(await cluster.run(['doctor', '--probe', '--node', 'nowhere'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('nowhere is not an active cluster node'),
  });
});

test('doctor reports an unknown queue as a failed check, and lists the existing queues', async () => {
  const { exitCode, findings } = await doctor('--queue', 'nowhere');
  expect(exitCode).toBe(4);
  expect(findings.get('queue')).toMatchObject({ state: 'error', hint: expect.stringContaining('default') });
});

test('init writes a job that the cluster runs, and list shows it among the ended jobs', async () => {
  const folder = path.join(await temporaryFolder(), 'circle');
  const made = await runCommand(['init', folder, '--instances', '1', '--name', 'a circle']);
  expect(made).toMatchObject({ exitCode: 0, stderr: '' });
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', path.join(folder, 'job.yaml')]);
  expect(exitCode, stderr).toBe(0);
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  expect((await cluster.run(['logs', id, 'worker:0'])).stdout).toMatch(/^accuracy: (9\d|100)\.\d\d %$/m);

  const ended = jsonLines((await cluster.run(['list', '--all', '--output', 'json'])).stdout);
  expect(ended.find((job) => job.id === id)).toMatchObject({ name: 'a circle', user: 'alice', state: 'succeeded' });
  expect((await cluster.run(['list', '--all', '--name', 'a circle'])).stdout).toMatch(new RegExp(`^${id}  a circle .*succeeded`, 'm'));
  expect((await cluster.run(['list'])).stdout).not.toContain(id);
  expect((await cluster.run(['list', '--all', '--user', 'bob'])).stdout).not.toContain(id);
});

test('init does not overwrite an existing file', async () => {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'job.yaml'));
  expect(await runCommand(['init', folder])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('job.yaml already exists') });
});
