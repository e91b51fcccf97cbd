import type { Acl, Resource } from '../../conf/job.ts';
import { encodeTokenUrl, type Token } from '../rpc/credentials.ts';
import { launchEnvironment } from './launch-script.ts';

/** An application to submit to the ResourceManager. */
export interface ApplicationSubmission {
  readonly applicationId: string;
  readonly name: string;
  /** YARN shows the type in its lists and can filter by it. */
  readonly type: string;
  readonly queue: string;
  readonly tags: readonly string[];
  /** Resources of the ApplicationMaster's container. REST supports memory and vcores only: the ResourceManager drops GPUs silently. */
  readonly memoryMb: number;
  readonly vcores: number;
  readonly nodeLabel: string | null;
  /** YARN starts applications of a queue with a higher priority first. */
  readonly priority: number;
  readonly maxAttempts: number;
  /** YARN counts only failed attempts within this time (ms) towards `maxAttempts`; null counts all. */
  readonly failureWindowMs: number | null;
  /** Containers keep running when the ApplicationMaster fails, and the next attempt takes them over. */
  readonly keepContainers: boolean;
  /** Inserted into the launch script unchanged: see `launchCommand`. */
  readonly command: string;
  /** The program receives these values unchanged. */
  readonly environment: Readonly<Record<string, string>>;
  readonly resources: readonly Resource[];
  /** Delegation tokens in the container's credentials file. The ResourceManager renews them, and cancels them at the end. */
  readonly tokens: readonly Token[];
  /** Entries of the container's credentials file. */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  /** Access in addition to the user and the administrators; null keeps the cluster's default. */
  readonly acls: { readonly view: Acl; readonly modify: Acl } | null;
}

/** The request body with its secrets redacted, for output to users. */
export function redactedBody(submission: ApplicationSubmission): Record<string, unknown> {
  const hidden = (): string => '***';
  return submissionBody(submission, hidden, hidden);
}

/** The body of `POST /ws/v1/cluster/apps` (ApplicationSubmissionContextInfo). */
export function submissionBody(
  submission: ApplicationSubmission,
  writeSecret: (secret: Uint8Array) => string = (secret) => Buffer.from(secret).toString('base64url'),
  writeToken: (token: Token) => string = encodeTokenUrl,
): Record<string, unknown> {
  const { acls, nodeLabel, failureWindowMs, tokens } = submission;
  return {
    'application-id': submission.applicationId,
    'application-name': submission.name,
    'application-type': submission.type,
    ...(submission.tags.length === 0 ? {} : { 'application-tags': { tag: submission.tags } }),
    queue: submission.queue,
    'unmanaged-AM': false,
    priority: submission.priority,
    'max-app-attempts': submission.maxAttempts,
    ...(failureWindowMs === null ? {} : { 'attempt-failures-validity-interval': failureWindowMs }),
    'keep-containers-across-application-attempts': submission.keepContainers,
    resource: { memory: submission.memoryMb, vCores: submission.vcores },
    ...(nodeLabel === null ? {} : { 'am-container-node-label-expression': nodeLabel }),
    'am-container-spec': {
      commands: { command: submission.command },
      environment: entries(launchEnvironment(submission.environment)),
      'local-resources': entries(Object.fromEntries(submission.resources.map((resource) => [resource.name, localResource(resource)]))),
      credentials: {
        tokens: tokens.length === 0 ? {} : entries(Object.fromEntries(tokens.map((token) => [token.service, writeToken(token)]))),
        secrets: entries(Object.fromEntries([...submission.secrets].map(([key, value]) => [key, writeSecret(value)]))),
      },
      ...(acls === null ? {} : { 'application-acls': entries({ VIEW_APP: aclText(acls.view), MODIFY_APP: aclText(acls.modify) }) }),
    },
  };
}

/** YARN's form of an ACL, `alice,bob staff,admins`: users, a space, groups. */
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

/** The ResourceManager's JSON form of a map. Hadoop 2 answers a body that contains an empty list with a NullPointerException. */
function entries(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const all = Object.entries(map).map(([key, value]) => ({ key, value }));
  return all.length === 0 ? {} : { entry: all };
}
