import { z } from 'zod';
import { text } from './value-schemas.ts';

/** A Docker image in which YARN starts a container, with YARN's rules for its mounts and its network. */
export interface DockerContainer {
  readonly image: string;
  /** `SOURCE:DESTINATION[:MODE]`, absolute paths on the node and in the container; MODE is `ro` or `rw` (default). */
  readonly mounts: readonly string[];
  /** One of the networks that YARN allows; null for the cluster's default. */
  readonly network: string | null;
}

const IMAGE_MESSAGE = 'expected the name of an image, such as registry.example.org/team/train:1.4';
const MOUNT_MESSAGE = 'expected SOURCE:DESTINATION or SOURCE:DESTINATION:MODE with absolute paths and mode ro or rw';

// YARN splits the list of mounts at commas.
const image = z.string({ error: IMAGE_MESSAGE }).regex(/^[\w][\w.:/@-]*$/, { error: IMAGE_MESSAGE });
const mount = z
  .string({ error: MOUNT_MESSAGE })
  .regex(/^\/[^:,]*:\/[^:,]*(:(ro|rw)(\+(r?(shared|slave|private)))?)?$/, { error: MOUNT_MESSAGE });
const network = text().regex(/^[\w][\w.-]*$/, { error: 'is not the name of a Docker network' });

/** `docker` in job.yaml: `none`, or the container's image with its options. */
export const dockerSchema = z
  .union(
    [
      z.literal('none'),
      z.strictObject({
        image: image.describe('Docker image.'),
        mounts: z
          .array(mount)
          .describe('Folders of the node that the container sees: SOURCE:DESTINATION[:MODE], with mode ro or rw (default).')
          .default([]),
        network: network.describe("Docker network; the cluster's default network if absent.").optional(),
      }),
    ],
    { error: 'expected none, or {image, mounts, network}' },
  )
  .transform((value): DockerContainer | null => (value === 'none' ? null : { ...value, network: value.network ?? null }));

/** `docker` in a resolved job. */
export const resolvedDocker: z.ZodType<DockerContainer | null> = z
  .strictObject({ image, mounts: z.array(mount), network: network.nullable() })
  .nullable();

/**
 * The environment variables by which YARN's LinuxContainerExecutor starts a container in Docker (Hadoop documentation, "Launching
 * Applications Using Docker Containers"). Other executors ignore these variables.
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

/** The exact form in a file: `none` or `{image: ..., mounts: [...], network: ...}`. */
export function writtenDocker(docker: DockerContainer | null): string {
  if (docker === null) {
    return 'none';
  }
  const { image: name, mounts, network: on } = docker;
  return `{image: ${name}${mounts.length > 0 ? `, mounts: [${mounts.join(', ')}]` : ''}${on === null ? '' : `, network: ${on}`}}`;
}
