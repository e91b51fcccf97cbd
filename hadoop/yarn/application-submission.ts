import { encodeTokenUrl, type Token } from '../rpc/credentials.ts';
import type { Acl } from './acl.ts';
import { launchEnvironment } from './launch-script.ts';
import type { LocalResource } from './local-resource.ts';

export interface ApplicationSubmission {
  readonly applicationId: string;
  readonly name: string;
  /** Application type, by which users can filter YARN's application lists. */
  readonly type: string;
  readonly queue: string;
  readonly tags: readonly string[];
  /** Resources of the ApplicationMaster's container. YARN's REST API does not accept other resource types here. */
  readonly memoryMb: number;
  readonly vcores: number;
  readonly nodeLabel: string | null;
  /** Priority within the queue. YARN starts applications with higher numbers first. */
  readonly priority: number;
  readonly maxAttempts: number;
  /** Time window in ms. Only failed attempts within this window count toward `maxAttempts`. If null, all failed attempts count. */
  readonly failureWindowMs: number | null;
  /** True if containers keep running when the ApplicationMaster fails, so that the next attempt can take them over. */
  readonly keepContainers: boolean;
  /** Shell command from `launchCommand`, which YARN copies unchanged into the launch script. */
  readonly command: string;
  /** Environment variables with unescaped values. */
  readonly environment: Readonly<Record<string, string>>;
  readonly resources: readonly LocalResource[];
  /** Delegation tokens for the container's credentials file. The ResourceManager renews these tokens. */
  readonly tokens: readonly Token[];
  /** True if the tokens stay valid when the application ends. If false, the ResourceManager cancels them. */
  readonly keepTokens: boolean;
  /** Secrets for the container's credentials file. */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  /** Users with access in addition to the owner and the administrators. If null, the cluster's default applies. */
  readonly acls: { readonly view: Acl; readonly modify: Acl } | null;
}

/** Returns the request body without secrets, for display. */
export function redactedBody(submission: ApplicationSubmission): Record<string, unknown> {
  const hidden = (): string => '***';
  return submissionBody(submission, hidden, hidden);
}

/** Returns the request body of `POST /ws/v1/cluster/apps` (ApplicationSubmissionContextInfo). */
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
    'cancel-tokens-when-complete': !submission.keepTokens,
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

/** Formats an ACL in YARN's form `USERS GROUPS`, e.g. `alice,bob staff,admins`. */
export function aclText(acl: Acl): string {
  return `${acl.users.join(',')} ${acl.groups.join(',')}`;
}

function localResource(resource: LocalResource): Record<string, unknown> {
  return {
    resource: resource.uri,
    type: resource.type.toUpperCase(),
    visibility: resource.visibility.toUpperCase(),
    size: resource.size,
    timestamp: resource.timestamp,
  };
}

/** Converts a map to the ResourceManager's JSON format. Omits an empty list, because it would cause a NullPointerException in Hadoop 2. */
function entries(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const all = Object.entries(map).map(([key, value]) => ({ key, value }));
  return all.length === 0 ? {} : { entry: all };
}
