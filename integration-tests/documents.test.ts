import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { blocksOf, commandsOf, type DocumentedCommand, readDocuments } from '../tools/documents.ts';
import { jsonLines, USER, until, useCluster } from './harness.ts';
import { ReadersShell } from './readers-shell.ts';

/**
 * Runs the commands of all `sh` blocks in README.md and docs/ in order, on the cluster, with a separate home folder for each document. Only
 * example paths and IDs are replaced.
 */

/** Commands that cannot run in a test, with the reason. All other commands must succeed. */
const NOT_RUN: readonly (readonly [command: RegExp, reason: string])[] = [
  [/^npm test$/, 'this test is part of npm test'],
  [/^npm run quickstart$/, 'quickstart.test.ts runs it'],
  [/^npm (ci|install|link|config)\b/, 'it would change the packages that this test runs with'],
  [/^npm pack$/, 'it would build the package that this test runs; package.test.ts runs it'],
  [/^npm run offline\b/, 'it takes minutes; firewall.test.ts runs it'],
  [/^(mkdir|tar xzf|.*\bpip config) .*(\/opt\/tony-ts|index-url)/, 'it changes folders of this machine; firewall.test.ts runs it'],
  [/^\/opt\/tony-ts\//, 'it needs an installation in /opt; firewall.test.ts runs it'],
  [/^pip install /, 'it would change the Python packages of this machine; python-package.test.ts runs the package'],
  [/^npx tsc --noEmit false |^node build\/client\.js$/, 'tools/documents.test.ts runs it'],
  [/^conda pack /, 'it needs conda; python-packages.test.ts ships a packed environment'],
  [/^npm run bench\b/, 'a benchmark takes minutes, and needs an idle machine'],
  [/^npm run build$/, 'this test runs the built package'],
  [/^npm run cluster -- down$/, 'the remaining tests need the cluster'],
  [/^kinit$/, 'it asks for a password; kerberos.test.ts runs on a cluster that needs a ticket'],
  [/^tony-ts runtime build --gpu/, 'it downloads 2.4 GB'],
  [/^tony-ts notebook /, 'notebook.test.ts runs it, with a Python that contains JupyterLab'],
  [/^tony-ts doctor --probe/, 'doctor.test.ts runs it; the documents name nodes that this cluster does not have'],
];

/** Commands that run until Ctrl-C, with a pattern that their output must match. */
const SERVERS: readonly (readonly [command: RegExp, ready: RegExp])[] = [
  [/^tony-ts history serve/, /^history: http/m],
  [/^tony-ts tensorboard /, /^tensorboard: http/m],
  [/^tony-ts forward /, /^forwarding http/m],
];

/** Saves a file in the job's output folder. */
const SAVES = `mkdir -p model && echo done | tee model/file && python3 -c 'import tony; tony.save_output("model", "model")'`;

const cluster = useCluster();
let folder: string;
let shell: ReadersShell;
let running: string;
let ended: string;
let jobs = 0;
const used = new Set<RegExp>();
/** Commands that have run successfully. A command that several documents contain runs in the first of them. */
const succeeded = new Set<string>();

const all = await readDocuments();
const commands = new Map(
  all.map((document) => [document.name, blocksOf(document).flatMap((block) => (block.language === 'sh' ? commandsOf(block) : []))]),
);
/** tutorials.test.ts follows the tutorials. */
const withCommands = [...commands].filter(([name, found]) => found.length > 0 && !name.startsWith('docs/tutorials/'));

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-documents-'));
  shell = await ReadersShell.open(folder, cluster, cluster.clientEnvironment(), cluster.administrator);
  [running, ended] = await Promise.all([
    startJob(
      'name: running\nframework: none\nruntime: system\ncommand: echo here; sleep infinity\nroles: {worker: {resources: {memory: 512m}}}\n',
    ),
    startJob(`name: ended\nframework: none\nruntime: system\ncommand: ${SAVES}\nroles: {worker: {resources: {memory: 512m}}}\n`),
  ]);
  await cluster.ended(ended);
  await until(async () => (await shell.run(`tony-ts logs ${running}`, folder)).output.includes('here'), {
    describe: 'the running job has started',
  });
});

afterAll(async () => {
  for (const { id, state } of await cluster.applications()) {
    if (!['FINISHED', 'FAILED', 'KILLED'].includes(state)) {
      await shell.run(`tony-ts kill ${id}`, folder);
    }
  }
  for (const made of ['/apps', '/tony']) {
    await cluster.hdfsRemove(made);
  }
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

test.each(withCommands)('the commands in %s run successfully', async (name, listed) => {
  const place = path.join(folder, name.replaceAll(/\W/g, '-'));
  await mkdir(place);
  await readersFiles(place);
  for (const command of listed) {
    await follow(command, place);
  }
});

test('every exempt command and every server command appears in a document', () => {
  const texts = [...commands.values()].flat().map(({ text }) => text);
  expect(NOT_RUN.filter(([pattern]) => !texts.some((text) => pattern.test(text))).map(([pattern]) => String(pattern))).toEqual([]);
  expect(SERVERS.filter(([pattern]) => !used.has(pattern)).map(([pattern]) => String(pattern))).toEqual([]);
});

async function follow({ place, text }: DocumentedCommand, cwd: string): Promise<void> {
  if (succeeded.has(text) || NOT_RUN.some(([pattern]) => pattern.test(text))) {
    return;
  }
  const command = await filledIn(text);
  const server = SERVERS.find(([pattern]) => pattern.test(text));
  if (server !== undefined) {
    used.add(server[0]);
  }
  const { exitCode, output } = await shell.run(command, cwd, { shell: `${cwd}.shell`, ready: server?.[1] });
  const id = /\b(application|local)_\d+_\d+/.exec(command)?.[0];
  if (exitCode !== 0 && id !== undefined) {
    console.error((await shell.run(`tony-ts status ${id}; tony-ts list --all-users`, folder)).output);
  }
  expect({ place, command, exitCode, output }).toEqual({ place, command, exitCode: 0, output: expect.any(String) });
  if (/^(tony-ts|hdfs) /.test(text)) {
    succeeded.add(text);
  }
}

async function readersFiles(place: string): Promise<void> {
  const job = 'name: a-job\nframework: none\nruntime: system\ncommand: echo hello\nroles: {worker: {resources: {memory: 512m}}}\n';
  await writeFile(path.join(place, 'job.yaml'), job);
  await writeFile(path.join(place, 'train.ts'), "console.log('trained');\n");
  await writeFile(path.join(place, 'clicks.jsonl'), '{"page": 1}\n{"page": 2}\n');
  await writeFile(path.join(place, 'clicks.tfrecord'), '');
  await writeFile(
    path.join(place, 'tony.xml'),
    '<configuration><property><name>tony.worker.instances</name><value>2</value></property></configuration>',
  );
  await writeFile(path.join(place, 'tony-site.yaml'), 'quotas: {roles: {worker: {instances: 100}}}\n');
}

async function filledIn(text: string): Promise<string> {
  let filled = text
    .replaceAll('ROLE[:INDEX]', 'worker:0')
    .replaceAll('[ROLE[:INDEX]]', 'worker:0')
    .replaceAll('/etc/hadoop/conf', cluster.configuration)
    .replaceAll(/http:\/\/resourcemanager(\.example\.com)?:8088/g, cluster.resourceManager)
    .replaceAll('--port 18080', '--port 0')
    .replaceAll(/\balice\b/g, USER);
  const examples = new Set(filled.match(/\bJOB_ID\b|\bID[12]\b|\b(application|local)_1795225023264_\d{4}\b/g));
  for (const example of examples) {
    filled = filled.replaceAll(new RegExp(`\\b${example}\\b`, 'g'), await jobFor(text));
  }
  return filled;
}

async function jobFor(command: string): Promise<string> {
  if (/\bkill\b/.test(command)) {
    return await startJob(
      'name: dies\nframework: none\nruntime: system\ncommand: sleep 600\nroles: {worker: {resources: {memory: 512m}}}\n',
    );
  }
  if (/\bfeed\b/.test(command)) {
    const source = await mkdtemp(path.join(folder, 'feed-'));
    const program =
      "import { data } from 'tony-ts/training';\nfor await (const click of data.fromFeed('clicks')) console.log(String(click));\n";
    await writeFile(path.join(source, 'feed.mjs'), program);
    const job = `name: reads\nsource: ${source}\ncommand: TONY_BACKEND=cpu node feed.mjs\nroles: {worker: {resources: {memory: 1g}}}\n`;
    return await startJob(job, command.includes('local_') ? '--local' : '');
  }
  return /\b(attach|history|tensorboard|files)\b|\s(-f|--follow)\b/.test(command) ? ended : running;
}

async function startJob(job: string, option = ''): Promise<string> {
  const file = path.join(folder, `job-${++jobs}.yaml`);
  await writeFile(file, job);
  const { output } = await shell.run(`tony-ts submit --detach --output json --conf ${file} ${option} 2>&1`, folder);
  const submitted = jsonLines(output.replace(/^[^{].*$/gm, '')).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(output);
  }
  return String(submitted.id);
}
