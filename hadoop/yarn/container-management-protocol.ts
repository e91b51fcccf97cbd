import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { type Credentials, encodeCredentials, messageOfToken } from '../rpc/credentials.ts';
import {
  type AllocatedContainer,
  type ContainerIdMessage,
  type ContainerStatusMessage,
  completedOfMessage,
  containerIdOfMessage,
  messageOfContainerId,
} from '../rpc/records.ts';
import { RemoteError } from '../rpc/remote-error.ts';
import { launchEnvironment } from './launch-script.ts';
import type { LocalResource } from './local-resource.ts';
import { NodeConnections, type NodeManagerOptions } from './node-connections.ts';

export interface LaunchContext {
  readonly localResources: readonly LocalResource[];
  /** Environment variables with unescaped values. */
  readonly environment: Readonly<Record<string, string>>;
  /** Shell command from `launchCommand`, which the NodeManager copies unchanged into the launch script. */
  readonly command: string;
  readonly credentials: Credentials;
  /** ACLs in YARN's format, from `aclText`. */
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

/** Maximum number of containers per call, to limit the size of requests. */
const MAX_BATCH = 32;
const SIGNALS = { dump: 'OUTPUT_THREAD_DUMP', terminate: 'GRACEFUL_SHUTDOWN', kill: 'FORCEFUL_SHUTDOWN' } as const;

/** The client that an ApplicationMaster uses to start and stop containers on NodeManagers (ContainerManagementProtocol). */
export class NodeManagerClient {
  readonly #connections: NodeConnections;
  readonly #log: Logger;
  readonly #starts = new Map<string, QueuedStart[]>();

  constructor(options: NodeManagerOptions) {
    this.#connections = new NodeConnections(options);
    this.#log = options.log;
  }

  /**
   * Starts a container. Resolves when the NodeManager has accepted the request. The container's process is not yet running at that point. A
   * later error appears in the container's exit status. Concurrent starts on one node are sent in one call. Throws a RemoteError if the
   * NodeManager rejects the container.
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
        if (this.#starts.get(container.node) === batch) {
          this.#starts.delete(container.node);
        }
        void this.#startBatch(container.node, batch);
      });
    });
  }

  /**
   * Stops containers. The result contains null for each container that is stopped or has ended, and an error for each container that could
   * not be stopped.
   */
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

  /**
   * Returns container states, keyed by container ID. A NodeManager removes a container about a second after the container ends. For a
   * removed container, the value is an Error.
   */
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

  /** Closes all connections and rejects pending calls with RPC_CLOSED. */
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
        // The error means that an earlier call already started this container, but its response was lost.
        if (failure === undefined || (answer.repeated && /relaunch the same container/i.test(failure.remoteMessage))) {
          resolve();
        } else {
          reject(failure);
        }
      }
    } catch (error) {
      if (batch.length > 1 && error instanceof RemoteError && !error.fatal) {
        // A single invalid container can make the whole call fail.
        this.#log.warn(
          { node, containers: batch.length, error: messageOf(error) },
          'failed to start several containers with one call; starting them one by one',
        );
        for (const start of batch) {
          await this.#startBatch(node, [start]);
        }
        return;
      }
      for (const { reject } of batch) {
        reject(error);
      }
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

function messageOfResource(resource: LocalResource): object {
  return {
    resource: messageOfUri(resource.uri),
    size: resource.size,
    timestamp: resource.timestamp,
    type: resource.type.toUpperCase(),
    visibility: resource.visibility.toUpperCase(),
  };
}

/**
 * Converts a URI to a message. YARN encodes the path itself, so the path in the message must not be percent-encoded. Only file:// URIs are
 * percent-encoded, so only they must be decoded first. Port -1 stands for a URI without a port.
 */
function messageOfUri(text: string): object {
  const [, scheme, host = '', port, path] = /^([a-z][a-z0-9+.-]*):\/\/(\[[^\]]*\]|[^/:]*)(?::(\d+))?(\/.*)$/is.exec(text) ?? [];
  if (scheme === undefined || path === undefined) {
    throw new TonyError('INTERNAL', `"${text}" is not a resource URI.`);
  }
  return {
    scheme,
    ...(host === '' ? {} : { host }),
    port: port === undefined ? -1 : Number(port),
    file: scheme === 'file' ? decodeURIComponent(path) : path,
  };
}
