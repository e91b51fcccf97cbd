import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import { jobStatus } from '../../conf/status/job-status.fixture.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { encodeFileVersion, encodeScalars } from '../../contract/summary/event-file.ts';
import { fileUri } from '../../storage/uri.ts';
import { runCommand, startCommand } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder, until } from '../harness.ts';

const JOB = "name: nap\nframework: none\nruntime: system\nroles: {worker: {command: 'echo awake; sleep 600'}}\n";

test('a detached local job prints the URL of its pages, and leaves a history', async () => {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, JOB);
  const env = { HOME: folder };
  const { stdout } = await runCommand(['submit', '--conf', file, '--local', '--detach', '--output', 'json'], { env });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  const { urls } = jsonLines(stdout).find(({ type }) => type === 'pages') as unknown as { urls: { pages: string } };
  const id = String(submitted?.id);
  try {
    expect(urls.pages).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=\w{20,}$/);
    // Exchanges the token for a cookie, as a browser does.
    const entered = await fetch(urls.pages, { redirect: 'manual' });
    const cookie = entered.headers.get('set-cookie')?.split(';')[0] ?? '';
    const { origin } = new URL(urls.pages);
    expect((await fetch(`${origin}/`, { headers: { cookie } })).status).toBe(200);
    expect(await (await fetch(`${origin}/tony/api/v1/job`, { headers: { cookie } })).json()).toMatchObject({
      id,
      name: 'nap',
    });
    expect((await fetch(`${origin}/`)).status).toBe(403);
    expect((await runCommand(['status', id], { env })).stdout).toContain(`pages: ${urls.pages}`);
    const status = await runCommand(['status', id, '--output', 'json'], { env });
    expect(jsonLines(status.stdout)).toMatchObject([{ id, urls: { pages: urls.pages } }]);
    expect(jsonLines((await runCommand(['history', '--local', '--output', 'json'], { env })).stdout)).toMatchObject([
      { id, finishedAt: null },
    ]);
    expect((await runCommand(['cache', 'prune', '--local', '--older-than', '0s'], { env })).stdout).toBe('0 entries, 0 B removed\n');
  } finally {
    await runCommand(['kill', id], { env });
  }
  expect((await runCommand(['status', id], { env })).stdout).not.toContain('pages:');
  expect((await runCommand(['history', '--local'], { env })).stdout).toMatch(new RegExp(`^${id} +nap +killed`, 'm'));
  expect((await runCommand(['history', 'show', id], { env })).stdout).toMatch(/worker:0 +stopped/);
  // The final status appears before the job has written its last line.
  const { masterAddress } = localPaths(path.join(folder, '.tony-ts', 'local'), id);
  await until(() => !existsSync(masterAddress), { describe: 'the ApplicationMaster cleans up' });
  expect((await runCommand(['cache', '--local'], { env })).stdout).toMatch(new RegExp(`^bundles +\\d.* ${id} +\\d{4}-\\d\\d-\\d\\d$`, 'm'));
  expect((await runCommand(['cache', 'prune', '--local'], { env })).stdout).toBe('0 entries, 0 B removed\n');
  const emptied = await runCommand(['cache', 'prune', '--local', '--older-than', '0s'], { env });
  expect(emptied.stdout).toMatch(new RegExp(`^removed bundles [0-9a-f]{8} .* last used by ${id} on .*\\n1 entry, .* removed\\n$`));
  expect((await runCommand(['cache', 'list', '--local'], { env })).stdout).toBe('The cache is empty.\n');
  expect((await runCommand(['history', 'prune', '--local', '--older-than', '0s'], { env })).stdout).toContain('1 history, ');
  expect((await runCommand(['history', '--local'], { env })).stdout).toBe('No jobs found.\n');
  expect(await runCommand(['history', 'show', id], { env })).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining(`There is no history of ${id}`),
  });
});

test('a followed local job prints the URL of its pages', async () => {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, JOB);
  const command = startCommand(['submit', '--conf', file, '--local'], { env: { HOME: folder } });
  const [, url = ''] = await command.output(/^pages: (\S+)$/m);
  expect((await fetch(url, { redirect: 'manual' })).status).toBe(303);
  command.signal('SIGTERM');
  expect((await command.result).stdout.match(/^pages: /gm)).toHaveLength(1);
});

test('tensorboard shows the curves of an ended job, and leaves no files or processes behind', async () => {
  const folder = await temporaryFolder();
  const id = 'local_1700000000000_0001';
  const history = path.join(folder, 'local', 'history', id);
  const train = path.join(history, 'summaries', 'train');
  await mkdir(train, { recursive: true });
  const scalars = [1, 2, 3].map((step) => encodeScalars(1_700_000_000 + step, step, [{ tag: 'loss', value: 1 / step }]));
  await writeFile(path.join(train, 'events.out.tfevents.1700000000.x'), Buffer.concat([encodeFileVersion(1_700_000_000), ...scalars]));
  const status = jobStatus({ id, state: 'succeeded', finishedAt: 5, summaryUri: fileUri(path.join(history, 'summaries')) });
  await writeFile(path.join(history, 'final.json'), JSON.stringify(status));
  const command = startCommand(['tensorboard', id, '--no-open'], { env: { TONY_LOCAL_DIR: path.join(folder, 'local'), TMPDIR: folder } });
  const [, url = ''] = await command.output(/^tensorboard: (\S+)$/m);
  const [base = '', token = ''] = url.split('?token=');
  const headers = { authorization: `Bearer ${token}` };
  const get = (target: string): Promise<Response> => fetch(`${base}${target}`, { headers });
  await until(async () => ((await (await get('tony/api/v1/job')).json()) as JobStatus).tensorboard.state === 'ready', {
    describe: async () => JSON.stringify(((await (await get('tony/api/v1/job')).json()) as JobStatus).tensorboard),
  });
  expect(await (await get('')).text()).toContain('tb-relative-root');
  await until(async () => ((await (await get('data/runs')).json()) as string[]).includes('train'), {
    describe: 'TensorBoard has read the run',
  });
  expect(await (await get('data/plugin/scalars/scalars?tag=loss&run=train')).json()).toMatchObject([
    [expect.any(Number), 1, 1],
    [expect.any(Number), 2, 0.5],
    [expect.any(Number), 3, expect.closeTo(1 / 3)],
  ]);
  expect((await fetch(base)).status).toBe(403);
  command.signal('SIGINT');
  expect(await command.result).toMatchObject({ exitCode: 0 });
  const { stdout } = await execute('ps', ['-eo', 'args']);
  expect(stdout).not.toContain(folder);
  expect((await execute('find', [folder, '-name', 'tony-ts-history-*'])).stdout).toBe('');
});

test('history serve rejects --auth simple on a cluster with Kerberos', async () => {
  const folder = await temporaryFolder();
  const property = (name: string, value: string): string => `<property><name>${name}</name><value>${value}</value></property>`;
  const xml = `<configuration>${property('fs.defaultFS', 'hdfs://127.0.0.1:1')}${property('hadoop.security.authentication', 'kerberos')}</configuration>`;
  await writeFile(path.join(folder, 'core-site.xml'), xml);
  const refused = await runCommand(['history', 'serve', '--auth', 'simple'], { env: { HADOOP_CONF_DIR: folder } });
  expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('requires Kerberos') });
  const local = await runCommand(['history', 'serve', '--auth', 'simple', '--local'], { env: { HOME: folder } });
  expect(local).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--auth simple works only with the histories of a cluster') });
  const port = await runCommand(['history', 'serve', '--port', '70000', '--local'], { env: { HOME: folder } });
  expect(port).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--port requires a whole number') });
});

test('commands find a job by its name, unless several jobs have this name', async () => {
  const env = { TONY_LOCAL_DIR: path.join(await temporaryFolder(), 'root'), HADOOP_CONF_DIR: undefined };
  const submit = async (name: string): Promise<string> => {
    const { stdout } = await runCommand(['submit', '--local', '--name', name, '--quiet', '--source', 'none', '--', 'true'], { env });
    return stdout.trim();
  };
  const one = await submit('one');
  const twins = [await submit('twin'), await submit('twin')];
  expect((await runCommand(['status', 'one'], { env })).stdout).toContain(one);
  const { exitCode, stderr } = await runCommand(['describe', 'twin'], { env });
  expect({ exitCode, stderr: stderr.replace(/\s+/g, ' ') }).toEqual({
    exitCode: 2,
    stderr: `error: 2 of your jobs have the name twin. hint: Pass an ID, newest first: ${twins[1]} (succeeded), ${twins[0]} (succeeded). `,
  });
  expect(await runCommand(['logs', 'tw'], { env })).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('no job with the ID or name tw.'),
  });
});
