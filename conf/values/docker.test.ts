import { expect, test } from 'vitest';
import { dockerEnvironment, dockerSchema, writtenDocker } from './docker.ts';

test("the environment has the names and formats of YARN's Docker runtime", () => {
  const docker = dockerSchema.parse({ image: 'ml/train:1', mounts: ['/data:/data:ro', '/tmp:/scratch'], network: 'host' });
  expect(dockerEnvironment(docker)).toEqual({
    YARN_CONTAINER_RUNTIME_TYPE: 'docker',
    YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: 'ml/train:1',
    YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: '/data:/data:ro,/tmp:/scratch',
    YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK: 'host',
  });
  expect(writtenDocker(docker)).toBe('{image: ml/train:1, mounts: [/data:/data:ro, /tmp:/scratch], network: host}');
  expect(dockerEnvironment(dockerSchema.parse({ image: 'a' }))).toEqual({
    YARN_CONTAINER_RUNTIME_TYPE: 'docker',
    YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: 'a',
  });
  expect([dockerEnvironment(dockerSchema.parse(null)), writtenDocker(null)]).toEqual([{}, 'null']);
});

test.each([
  { image: 'a b' },
  { image: '-rm' },
  { image: 'a', mounts: ['data:/data'] },
  { image: 'a', mounts: ['/data:/data:rx'] },
  { image: 'a', mounts: ['/a:/b,/etc:/etc'] },
  { image: 'a', network: '--privileged' },
])('rejects %o', (docker) => {
  expect(dockerSchema.safeParse(docker).success).toBe(false);
});
