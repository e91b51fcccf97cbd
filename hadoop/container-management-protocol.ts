import { messageOf, TonyError } from '../conf/errors.ts';
import type { Resource } from '../conf/job.ts';
import type { Logger } from '../conf/log.ts';
import { type Credentials, encodeCredentials, messageOfToken, type Token } from './credentials.ts';
import { launchEnvironment } from './launch-script.ts';
import { NodeConnections } from './node-connections.ts';
import {
  type AllocatedContainer,
  type ContainerIdMessage,
  type ContainerStatusMessage,
  completedOfMessage,
  containerIdOfMessage,
  messageOfContainerId,
} from './records.ts';
import { RemoteError } from './remote-error.ts';

/** What a NodeManager needs to run a container. */
export interface LaunchContext {
  readonly localResources: readonly Resource[];
  /** Values as the program shall see them. */
  readonly environment: Readonly<Record<string, string>>;
  /** Raw for the launch script (launch-script.ts). */
  readonly command: string;
  readonly credentials: Credentials;
  /** YARN's form: users, a space, groups. */
  readonly acls?: { readonly view: string; readonly modify: string };
}

export interface ContainerState {
  readonly state: 'NEW' | 'RUNNING' | 'COMPLETE';
  readonly exitStatus: number;
  readonly diagnostics: string;
}

interface ContainerFailures {
  readonly failed_requests: readonly {
    readonly container_id?: ContainerIdMessage;
    readonly exception?: { readonly message?: string; readonly class_name?: string };
  }[];
}

interface QueuedStart {
  readonly container: AllocatedContainer;
  readonly context: LaunchContext;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Containers in one call; its size is bounded by that. */
const MAX_BATCH = 32;
const SIGNALS = { dump: 'OUTPUT_THREAD_DUMP', terminate: 'GRACEFUL_SHUTDOWN', kill: 'FORCEFUL_SHUTDOWN' } as const;

export interface NodeManagerOptions {
  /** By "host:port": ApplicationMasterClient.nodeTokens. */
  readonly tokens: ReadonlyMap<string, Token>;
  readonly log: Logger;
  readonly callTimeoutMs?: number;
  readonly idleCloseMs?: number;
  /** So long an unreachable NodeManager is tried again: it may be restarting. */
  readonly patienceMs?: number;
}

/** The ApplicationMaster's end of ContainerManagementProtocol, for all nodes. */
export class NodeManagerClient {
  readonly #connections: NodeConnections;
  readonly #log: Logger;
  readonly #starts = new Map<string, QueuedStart[]>();

  constructor(options: NodeManagerOptions) {
    this.#connections = new NodeConnections(options);
    this.#log = options.log;
  }

  /**
   * Resolves when the NodeManager has taken the container on, which is before it runs: what goes wrong then comes as its completion.
   * Starts on one node that are asked for at the same time go out in one call. Throws a RemoteError when it is refused.
   */
  async start(container: AllocatedContainer, context: LaunchContext): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const start = { container, context, resolve, reject };
      const queue = this.#starts.get(container.node);
      if (queue !== undefined && queue.length < MAX_BATCH) {
        queue.push(start);
        return;
      }
      const batch = [start];
      this.#starts.set(container.node, batch);
      setImmediate(() => {
        if (this.#starts.get(container.node) === batch) this.#starts.delete(container.node);
        void this.#startBatch(container.node, batch);
      });
    });
  }

  /** By id: null when it is stopped or already gone, else why not. */
  async stop(node: string, containerIds: readonly string[]): Promise<Map<string, Error | null>> {
    const answer = await this.#connections.call<ContainerFailures>(
      node,
      'stopContainers',
      'StopContainersRequestProto',
      { container_id: containerIds.map(messageOfContainerId) },
      'StopContainersResponseProto',
    );
    const failures = this.#failuresOf(node, 'stopContainers', answer.response);
    return new Map(
      containerIds.map((id) => {
        const failure = failures.get(id);
        return [id, failure === undefined || isGone(failure) ? null : failure];
      }),
    );
  }

  /** By id: what the NodeManager knows. About a second after its end it knows a container no more, and says so in an Error. */
  async statuses(node: string, containerIds: readonly string[]): Promise<Map<string, ContainerState | Error>> {
    const answer = await this.#connections.call<ContainerFailures & { status: readonly ContainerStatusMessage[] }>(
      node,
      'getContainerStatuses',
      'GetContainerStatusesRequestProto',
      { container_id: containerIds.map(messageOfContainerId) },
      'GetContainerStatusesResponseProto',
    );
    const result = new Map<string, ContainerState | Error>(this.#failuresOf(node, 'getContainerStatuses', answer.response));
    for (const status of answer.response.status) {
      const { id, exitStatus, diagnostics } = completedOfMessage(status);
      result.set(id, { state: stateOf(status.state), exitStatus, diagnostics });
    }
    return result;
  }

  async signal(node: string, containerId: string, signal: keyof typeof SIGNALS): Promise<void> {
    await this.#connections.call(
      node,
      'signalToContainer',
      'SignalContainerRequestProto',
      { container_id: messageOfContainerId(containerId), command: SIGNALS[signal] },
      'SignalContainerResponseProto',
    );
  }

  /** Whatever waits is rejected with RPC_CLOSED. */
  close(): void {
    this.#connections.close();
  }

  async #startBatch(node: string, batch: readonly QueuedStart[]): Promise<void> {
    try {
      const request = {
        start_container_request: batch.map(({ container, context }) => ({
          container_launch_context: messageOfContext(context),
          container_token: messageOfToken(container.token),
        })),
      };
      const answer = await this.#connections.call<ContainerFailures>(
        node,
        'startContainers',
        'StartContainersRequestProto',
        request,
        'StartContainersResponseProto',
      );
      const failures = this.#failuresOf(node, 'startContainers', answer.response);
      for (const { container, resolve, reject } of batch) {
        const failure = failures.get(container.id);
        // The first try's answer was lost, and it had started this container.
        if (failure === undefined || (answer.repeated && /relaunch the same container/i.test(failure.remoteMessage))) resolve();
        else reject(failure);
      }
    } catch (error) {
      if (batch.length > 1 && error instanceof RemoteError && !error.fatal) {
        // One request that is refused as a whole takes the others with it.
        this.#log.warn(
          { node, containers: batch.length, error: messageOf(error) },
          'starting several containers at once failed; starting each alone',
        );
        for (const start of batch) await this.#startBatch(node, [start]);
        return;
      }
      for (const { reject } of batch) reject(error);
    }
  }

  #failuresOf(node: string, method: string, response: ContainerFailures): Map<string, RemoteError> {
    return new Map(
      response.failed_requests.map(({ container_id, exception }) => {
        const id = containerIdOfMessage(container_id);
        const failure = new RemoteError({
          action: `${method} of ${id} at ${node}`,
          exceptionClassName: exception?.class_name ?? '',
          errorMessage: exception?.message ?? '',
          fatal: false,
        });
        return [id, failure];
      }),
    );
  }
}

function isGone(failure: RemoteError): boolean {
  return /is not handled by this NodeManager|was recently stopped|is not present|has completed/i.test(failure.remoteMessage);
}

function stateOf(state: ContainerStatusMessage['state']): ContainerState['state'] {
  switch (state) {
    case 'C_RUNNING':
      return 'RUNNING';
    case 'C_COMPLETE':
      return 'COMPLETE';
    case 'C_NEW':
    case undefined:
      return 'NEW';
  }
}

function messageOfContext(context: LaunchContext): object {
  const { acls } = context;
  return {
    localResources: context.localResources.map((resource) => ({ key: resource.name, value: messageOfResource(resource) })),
    tokens: encodeCredentials(context.credentials),
    environment: Object.entries(launchEnvironment(context.environment)).map(([key, value]) => ({ key, value })),
    command: [context.command],
    application_ACLs:
      acls === undefined
        ? []
        : [
            { accessType: 'APPACCESS_VIEW_APP', acl: acls.view },
            { accessType: 'APPACCESS_MODIFY_APP', acl: acls.modify },
          ],
  };
}

function messageOfResource(resource: Resource): object {
  return {
    resource: messageOfUri(resource.uri),
    size: resource.size,
    timestamp: resource.timestamp,
    type: resource.type.toUpperCase(),
    visibility: resource.visibility.toUpperCase(),
  };
}

/** YARN quotes the path again by itself, so it goes without percent signs; a port that is not named is -1. */
function messageOfUri(text: string): object {
  if (!URL.canParse(text)) throw new TonyError('INTERNAL', `"${text}" is not the URI of a resource.`);
  const uri = new URL(text);
  return {
    scheme: uri.protocol.slice(0, -1),
    ...(uri.hostname === '' ? {} : { host: uri.hostname }),
    port: uri.port === '' ? -1 : Number(uri.port),
    file: decodeURIComponent(uri.pathname),
  };
}
