import type { Acl, Resource } from '../conf/job.ts';
import { launchEnvironment } from './launch-script.ts';

/** What the ResourceManager is asked to start. */
export interface ApplicationSubmission {
  readonly applicationId: string;
  readonly name: string;
  /** Shown in YARN's lists, which can be filtered by it. */
  readonly type: string;
  readonly queue: string;
  readonly tags: readonly string[];
  /** Of the ApplicationMaster's container. REST knows memory and vcores only: the ResourceManager drops GPUs silently. */
  readonly memoryMb: number;
  readonly vcores: number;
  readonly nodeLabel: string | null;
  readonly maxAttempts: number;
  /** The containers of an ApplicationMaster that died go on under the next one. */
  readonly keepContainers: boolean;
  /** For the launch script as it is: see `launchCommand`. */
  readonly command: string;
  /** Values that the program gets letter by letter. */
  readonly environment: Readonly<Record<string, string>>;
  readonly resources: readonly Resource[];
  /** Into the container's credentials file. */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  /** Beside the user and the administrators; null leaves the cluster's rule. */
  readonly acls: { readonly view: Acl; readonly modify: Acl } | null;
}

/** The same as people may see it. */
export function redactedBody(submission: ApplicationSubmission): Record<string, unknown> {
  return submissionBody(submission, () => '***');
}

/** The body of `POST /ws/v1/cluster/apps` (ApplicationSubmissionContextInfo). */
export function submissionBody(
  submission: ApplicationSubmission,
  writeSecret: (secret: Uint8Array) => string = (secret) => Buffer.from(secret).toString('base64url'),
): Record<string, unknown> {
  const { acls, nodeLabel } = submission;
  return {
    'application-id': submission.applicationId,
    'application-name': submission.name,
    'application-type': submission.type,
    'application-tags': { tag: submission.tags },
    queue: submission.queue,
    'unmanaged-AM': false,
    'max-app-attempts': submission.maxAttempts,
    'keep-containers-across-application-attempts': submission.keepContainers,
    resource: { memory: submission.memoryMb, vCores: submission.vcores },
    ...(nodeLabel === null ? {} : { 'am-container-node-label-expression': nodeLabel }),
    'am-container-spec': {
      commands: { command: submission.command },
      environment: entries(launchEnvironment(submission.environment)),
      'local-resources': entries(Object.fromEntries(submission.resources.map((resource) => [resource.name, localResource(resource)]))),
      credentials: {
        tokens: {},
        secrets: entries(Object.fromEntries([...submission.secrets].map(([key, value]) => [key, writeSecret(value)]))),
      },
      ...(acls === null ? {} : { 'application-acls': entries({ VIEW_APP: aclText(acls.view), MODIFY_APP: aclText(acls.modify) }) }),
    },
  };
}

/** `alice,bob staff,admins`: users, a space, groups. */
export function aclText(acl: Acl): string {
  return `${acl.users.join(',')} ${acl.groups.join(',')}`;
}

function localResource(resource: Resource): Record<string, unknown> {
  return {
    resource: resource.uri,
    type: resource.type.toUpperCase(),
    visibility: resource.visibility.toUpperCase(),
    size: resource.size,
    timestamp: resource.timestamp,
  };
}

/** A map as the ResourceManager reads it. */
function entries(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { entry: Object.entries(map).map(([key, value]) => ({ key, value })) };
}
