import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runCommand } from './command.ts';
import { jsonLines, temporaryFolder, useCluster } from './harness.ts';

/** Files and archives that job.yaml lists are in the working directory of programs, on a cluster and on this machine. */

const cluster = useCluster();

/** Prints the content of all files, and where YARN keeps each of them on the node. */
const PROGRAM =
  'for name in words shared own tools/bin/run zipped/bin/run; do [ -e $name ] && echo "$TONY_ROLE $name: $(cat $name) $(readlink -f $(echo $name | cut -d/ -f1) | grep -oE "usercache/[a-z]*/(filecache|appcache)|/filecache")"; done; tools/bin/run; echo runtime: $(readlink -f ../../runtime)';

async function makeJob(): Promise<string> {
  const folder = await temporaryFolder();
  mkdirSync(path.join(folder, 'assets', 'bin'), { recursive: true });
  writeFileSync(path.join(folder, 'assets', 'bin', 'run'), '#!/bin/sh\necho unpacked\n', { mode: 0o755 });
  mkdirSync(path.join(folder, 'runtime', 'bin'), { recursive: true });
  writeFileSync(path.join(folder, 'runtime', 'bin', 'node'), `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, { mode: 0o755 });
  execFileSync('tar', ['czf', 'runtime.tar.gz', '-C', 'runtime', 'bin'], { cwd: folder });
  writeFileSync(path.join(folder, 'words.txt'), `a b c ${folder}`);
  execFileSync('tar', ['czf', 'assets.tar.gz', '-C', 'assets', '.'], { cwd: folder });
  execFileSync('python3', ['-m', 'zipfile', '-c', 'assets.zip', 'assets/bin'], { cwd: folder });
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    `name: files
framework: none
runtime: system
source: null
command: ${JSON.stringify(PROGRAM)}
files: {words: words.txt}
archives: {tools: assets.tar.gz}
roles:
  worker: {resources: {memory: 256m}, archives: {zipped: assets.zip}}
  evaluator: {resources: {memory: 256m}, files: {own: {path: words.txt, visibility: application}}, archives: {folder: assets}}
`,
  );
  return file;
}

async function outputOf(
  command: Promise<{ exitCode: number | null; stdout: string; stderr: string }>,
): Promise<{ id: string; text: string }> {
  const { exitCode, stdout, stderr } = await command;
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.any(String) });
  const id = jsonLines(stdout).find((line) => typeof line.id === 'string')?.id as string;
  return { id, text: stderr };
}

test('on a cluster, YARN localises files and archives, and shares them as their visibility says', async () => {
  const file = await makeJob();
  const shared = `/shared-${process.pid}`;
  await cluster.hdfsMakeFolder(shared, '755');
  onTestFinished(() => cluster.hdfsRemove(shared));
  await cluster.hdfsWrite(`${shared}/a b.bin`, Buffer.from('for all users'));
  await cluster.hdfsWrite(`${shared}/runtime.tar.gz`, readFileSync(path.join(path.dirname(file), 'runtime.tar.gz')));
  const set = ['--set', `runtime=hdfs://${shared}/runtime.tar.gz`, '--set', `roles.worker.files={shared: "hdfs://${shared}/a b.bin"}`];
  const { id } = await outputOf(cluster.run(['submit', '--conf', file, ...set, '--output', 'json']));
  const logs = await cluster.run(['logs', id, 'worker:0']);
  const evaluator = await cluster.run(['logs', id, 'evaluator:0']);
  const words = `a b c ${path.dirname(file)}`;
  expect(logs.stdout.split('\n')).toEqual(
    expect.arrayContaining([
      `worker words: ${words} usercache/alice/filecache`,
      'worker shared: for all users /filecache',
      'unpacked',
      expect.stringMatching(/^runtime: \S+\/filecache\/\d+\/runtime\.tar\.gz$/),
      expect.stringMatching(/^worker zipped\/bin\/run: #!\/bin\/sh/),
    ]),
  );
  expect(logs.stdout).not.toMatch(/worker own|runtime: \S+\/usercache/);
  expect(evaluator.stdout.split('\n')).toContain(`evaluator own: ${words} usercache/alice/appcache`);
  expect(evaluator.stdout).not.toMatch(/evaluator (zipped|shared)/);
});

test('on this machine, programs find the same files', async () => {
  const file = await makeJob();
  const env = { TONY_LOCAL_DIR: path.join(path.dirname(file), 'root'), HADOOP_CONF_DIR: undefined };
  const { id } = await outputOf(runCommand(['submit', '--local', '--conf', file, '--output', 'json'], { env }));
  const { stdout } = await runCommand(['logs', id, 'worker:0'], { env });
  expect(stdout).toContain(`worker words: a b c ${path.dirname(file)}`);
  expect(stdout).toMatch(/worker zipped\/bin\/run: #!\/bin\/sh/);
  expect(stdout).toMatch(/^unpacked$/m);
});
