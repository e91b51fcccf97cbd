import * as z from 'zod';
import { text } from './value-schemas.ts';

export interface DockerContainer {
  readonly image: string;
  /**
   * Mounts of the form `SOURCE:DESTINATION[:MODE]`. SOURCE is an absolute path on the node, and DESTINATION is an absolute path in the
   * container. MODE is `ro` or `rw`, and defaults to `rw`.
   */
  readonly mounts: readonly string[];
  /** Docker network, or null for the cluster's default network. */
  readonly network: string | null;
}

const IMAGE_MESSAGE = 'expected an image name, such as registry.example.org/team/train:1.4';
const MOUNT_MESSAGE = 'expected SOURCE:DESTINATION or SOURCE:DESTINATION:MODE with absolute paths and mode ro or rw';

// Commas are not allowed, because YARN separates mounts with commas.
const image = z.string({ error: IMAGE_MESSAGE }).regex(/^[\w][\w.:/@-]*$/, { error: IMAGE_MESSAGE });
const mount = z
  .string({ error: MOUNT_MESSAGE })
  .regex(/^\/[^:,]*:\/[^:,]*(:(ro|rw)(\+(r?(shared|slave|private)))?)?$/, { error: MOUNT_MESSAGE });
const network = text().regex(/^[\w][\w.-]*$/, { error: 'is not a valid Docker network name' });

/** Schema for `docker` in job.yaml. The value is null, or an image with options. */
export const dockerSchema = z
  .union(
    [
      z.null(),
      z.strictObject({
        image: image.describe('Docker image.'),
        mounts: z
          .array(mount)
          .describe('Folders on the node to mount into the container, as SOURCE:DESTINATION[:MODE]. MODE is ro or rw (default).')
          .default([]),
        network: network.describe("Docker network. The default is the cluster's default network.").optional(),
      }),
    ],
    { error: 'expected {image, mounts, network}, or null' },
  )
  .transform((value): DockerContainer | null => (value === null ? null : { ...value, network: value.network ?? null }));

export const resolvedDocker: z.ZodType<DockerContainer | null> = z
  .strictObject({ image, mounts: z.array(mount), network: network.nullable() })
  .nullable();

/**
 * Returns the environment variables that make YARN's LinuxContainerExecutor start a container in Docker. Other container executors ignore
 * these variables. Source: Hadoop documentation, "Launching Applications Using Docker Containers".
 */
export function dockerEnvironment(docker: DockerContainer | null): Readonly<Record<string, string>> {
  if (docker === null) {
    return {};
  }
  return {
    YARN_CONTAINER_RUNTIME_TYPE: 'docker',
    YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: docker.image,
    ...(docker.mounts.length > 0 && { YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: docker.mounts.join(',') }),
    ...(docker.network !== null && { YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK: docker.network }),
  };
}

/** Formats the value in job.yaml syntax, as `null` or `{image: ..., mounts: [...], network: ...}`. */
export function writtenDocker(docker: DockerContainer | null): string {
  if (docker === null) {
    return 'null';
  }
  const { image: name, mounts, network: on } = docker;
  return `{image: ${name}${mounts.length > 0 ? `, mounts: [${mounts.join(', ')}]` : ''}${on === null ? '' : `, network: ${on}`}}`;
}
