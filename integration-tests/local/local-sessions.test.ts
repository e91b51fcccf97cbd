import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import { readStat } from '../../platform/process-stat.ts';
import { COMMAND, environment, runCommand, startCommand } from '../command.ts';
import { temporaryFolder, until } from '../harness.ts';
import { terminalCommand } from '../pseudo-terminal.ts';

/** Sessions with the tasks of local jobs, which run the same ApplicationMaster and executors as jobs on a cluster. */

async function startJob(set: readonly string[] = []) {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    'name: local\nframework: none\nruntime: system\ncommand: exec sleep 600\nroles: {worker: {resources: {memory: 512m}}}\n',
  );
  const root = path.join(folder, 'root');
  const env = { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined };
  const words = ['submit', '--local', '--conf', file, '--output', 'json', ...set.flatMap((each) => ['--set', each])];
  const job = startCommand(words, { env });
  const [id] = await job.output(/local_\d+_\d+/);
  const paths = localPaths(root, id);
  await until(() => existsSync(paths.masterAddress), { describe: 'the ApplicationMaster has published its address' });
  const address = () => JSON.parse(readFileSync(paths.masterAddress, 'utf8')) as { pid: number; sessions: { token: string } | null };
  const exec = (...command: string[]) => runCommand(['exec', id, 'worker:0', '--', ...command], { env });
  /** The program may still be starting. */
  const started = () => until(async () => (await exec('true')).exitCode === 0, { describe: 'a session with the task' });
  return { id, env, job, paths, address, exec, started };
}

/** Starts a command in the task, and returns the process ID that it prints. */
async function startInTask(id: string, env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const words = ['exec', id, 'worker:0', '--', 'sh', '-c', 'echo $$; exec sleep 600'];
  const child = spawn(process.execPath, [COMMAND, ...words], { env: environment(env), stdio: ['pipe', 'pipe', 'ignore'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => {
    output += bytes;
  });
  return Number(await until(() => /^\d+$/m.exec(output)?.[0], { describe: () => output }));
}

function isAlive(pid: number): boolean {
  return (readStat(pid)?.state ?? 'Z') !== 'Z';
}

describe('sessions', () => {
  test('need the token, continue with the next ApplicationMaster, and end with the executor', async () => {
    const { id, env, paths, address, exec, started } = await startJob();
    await started();
    expect(statSync(paths.masterAddress).mode & 0o777).toBe(0o600);
    const known = address();
    const token = '0'.repeat(known.sessions?.token.length ?? 0);
    writeFileSync(paths.masterAddress, JSON.stringify({ ...known, sessions: { ...known.sessions, token } }));
    expect(await exec('true')).toMatchObject({ exitCode: 255, stderr: expect.stringContaining('The session token is wrong.') });
    writeFileSync(paths.masterAddress, JSON.stringify(known));

    process.kill(known.pid, 'SIGKILL');
    await until(() => address().pid !== known.pid, { describe: 'another ApplicationMaster has started' });
    await started();

    const pid = await startInTask(id, env);
    expect(isAlive(pid)).toBe(true);
    // The executor is the parent of the command.
    process.kill(Number((await exec('sh', '-c', 'echo $PPID')).stdout), 'SIGKILL');
    await until(() => !isAlive(pid), { describe: 'the command has ended' });
  });

  test('are a shell without a terminal if the PATH of the task has no program `script`', async () => {
    const programs = await temporaryFolder();
    for (const name of readdirSync('/usr/bin').filter((each) => each !== 'script')) {
      symlinkSync(path.join('/usr/bin', name), path.join(programs, name));
    }
    const { id, env, started } = await startJob([`env.PATH=${programs}`]);
    await started();
    const terminal = terminalCommand(['shell', id, 'worker:0'], { columns: 97, rows: 31, env });
    await terminal.sees(/The command `script` is not on the task's PATH, so the shell runs without a terminal/);
    terminal.type('tty; echo "role $TONY_ROLE"\r');
    // The shell prints its prompt to stderr, so the prompt may come before, between or after these lines.
    await terminal.sees(/not a tty/);
    await terminal.sees(/role worker/);
    terminal.type('exit 9\r');
    expect(await terminal.exitCode).toBe(9);
  });

  test('are rejected if the job does not permit them', async () => {
    const { exec, address } = await startJob(['remoteAccess=false']);
    expect(address().sessions).toBeNull();
    expect(await exec('true')).toMatchObject({ exitCode: 255, stderr: expect.stringContaining('remoteAccess is false') });
  });
});
