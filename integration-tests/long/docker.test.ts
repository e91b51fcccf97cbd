import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { containerExecutorProblem, executorConfiguration } from '../cluster/container-executor.mjs';
import { ROOT } from '../command.ts';
import { temporaryFolder, until, useOwnCluster } from '../harness.ts';
import { smallMnist } from '../small-mnist.ts';

/**
 * The MNIST example in Docker containers, on NodeManagers with the LinuxContainerExecutor and its Docker runtime. The command `docker` may
 * belong to Podman.
 */

/** An image with bash and a glibc on which the shipped Node.js runs. */
const IMAGE = 'debian:12';
const problem = dockerProblem();

/** Returns the reason why this machine cannot run containers in Docker; null if it can. */
function dockerProblem(): string | null {
  const ofExecutor = containerExecutorProblem();
  if (ofExecutor !== null) {
    return ofExecutor;
  }
  const configuration = executorConfiguration();
  if (!existsSync(configuration) || !/^\[docker\]$/m.test(readFileSync(configuration, 'utf8'))) {
    return `${configuration} has no section [docker] with module.enabled=true, docker.allowed.networks=host, the capabilities of yarn-default.xml as docker.allowed.capabilities, and the folders of the cluster as docker.allowed.ro-mounts and docker.allowed.rw-mounts`;
  }
  try {
    execFileSync('docker', ['image', 'inspect', IMAGE], { stdio: 'pipe', timeout: 20_000 });
    return null;
  } catch (error) {
    return `the command docker finds no image ${IMAGE} (docker pull ${IMAGE}): ${String((error as { stderr?: Buffer }).stderr ?? error).trim()}`;
  }
}

test('this machine can run containers in Docker', ({ skip }) => {
  skip(problem !== null, problem ?? '');
});

describe.skipIf(problem !== null)('Docker', () => {
  const runtime = 'yarn.nodemanager.runtime.linux';
  const cluster = useOwnCluster('container-executor', {
    yarn: {
      [`${runtime}.allowed-runtimes`]: 'default,docker',
      [`${runtime}.docker.allowed-container-networks`]: 'host',
      [`${runtime}.docker.default-container-network`]: 'host',
    },
  });

  test('the example trains with its ApplicationMaster and its workers in Docker containers', async () => {
    const source = path.join(await temporaryFolder(), 'mnist');
    await cp(path.join(ROOT, 'examples', 'mnist'), source, { recursive: true });
    const file = path.join(source, 'docker.yaml');
    const docker = `docker: {image: '${IMAGE}', network: host}`;
    const lines = [
      'name: docker',
      'source: .',
      `data: {mnist: ${await smallMnist(6_400)}}`,
      `master: {${docker}}`,
      'roles:',
      `  worker: {instances: 2, command: 'cat /etc/debian_version && (test -e /.dockerenv || test -e /run/.containerenv) && node train.ts', resources: {memory: 1.5g}, ${docker}}`,
    ];
    await writeFile(file, `${lines.join('\n')}\n`);
    const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
    expect(exitCode, stderr + stdout).toBe(0);
    const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    const logs = await until(
      async () => {
        const read = await cluster.run(['logs', id, 'worker:0']);
        return read.exitCode === 0 && read;
      },
      { describe: 'the logs of the ended job' },
    );
    expect(logs.stdout, logs.stderr).toMatch(/^12\.\d+$/m);
    expect(logs.stdout).toMatch(/^test accuracy: (8|9)\d\.\d\d %$/m);
  });
});
