import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { AddressRound } from '../rpc/address-round.ts';
import { type Credentials, encodeCredentials, messageOfToken, type Token } from '../rpc/credentials.ts';
import type { Qop } from '../rpc/digest-md5.ts';
import { IpcConnection } from '../rpc/ipc.ts';
import { decodeMessage } from '../rpc/messages.ts';
import { type AllocatedContainer, completedOfMessage, containerIdOfMessage, endpointOfNode, messageOfContainerId } from '../rpc/records.ts';
import { RemoteError } from '../rpc/remote-error.ts';
import { launchEnvironment } from './launch-script.ts';
import type { LocalResource } from './local-resource.ts';

const PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ContainerManagementProtocolPB', version: 1 };
/** Maximum number of concurrent calls. Additional calls wait. */
const MAX_CONCURRENT_CALLS = 128;
/**
 * While more connections than this are open, a connection is closed as soon as it is idle. Thousands of idle connections would use too much
 * memory.
 */
const MAX_IDLE_CONNECTIONS = 128;

export interface NodeManagerOptions {
  /** NodeManager tokens, keyed by `host:port`. They come from ApplicationMasterClient.nodeTokens. */
  readonly tokens: ReadonlyMap<string, Token>;
  /** Weakest acceptable protection, from HadoopConfiguration.minimumQop. */
  readonly minimumQop: Qop;
  readonly log: Logger;
  readonly callTimeoutMs?: number;
  readonly idleCloseMs?: number;
  /** How long a call to an unreachable NodeManager is retried, in ms. The NodeManager may be restarting. */
  readonly maxWaitMs?: number;
}

interface NodeConnection {
  readonly ipc: IpcConnection;
  calls: number;
  idle: NodeJS.Timeout | null;
}

/**
 * Sends calls to NodeManagers. Opens at most one connection per NodeManager, when the connection is first needed, and closes it when it is
 * idle.
 */
class NodeConnections {
  readonly #options: Required<NodeManagerOptions>;
  readonly #clientId = randomBytes(16);
  readonly #connections = new Map<string, NodeConnection>();
  readonly #rounds = new Set<AddressRound>();
  readonly #waiting: (() => void)[] = [];
  #busy = 0;
  #closed = false;

  constructor(options: NodeManagerOptions) {
    this.#options = { callTimeoutMs: 20_000, idleCloseMs: 20_000, maxWaitMs: 20_000, ...options };
  }

  /**
   * Sends a call and returns the response. `repeated` is true if there were several attempts. In that case, the NodeManager may have
   * executed the call more than once. Throws a RemoteError if the NodeManager rejects the call, and RPC_UNREACHABLE if the NodeManager is
   * unreachable for `maxWaitMs`.
   */
  async call<Request extends keyof HadoopMessages, Response extends keyof HadoopMessages>(
    node: string,
    method: string,
    requestName: Request,
    request: HadoopMessages[Request],
    responseName: Response,
  ): Promise<{ readonly response: HadoopMessages[Response]; readonly repeated: boolean }> {
    await this.#turn();
    const round = new AddressRound([node], this.#options.maxWaitMs);
    this.#rounds.add(round);
    try {
      let tries = 0;
      const outcome = await round.run<HadoopMessages[Response]>(async () => {
        tries++;
        try {
          const bytes = await this.#callOnce(node, method, requestName, request);
          return { result: decodeMessage(responseName, bytes) };
        } catch (error) {
          if (!isWorthAnotherTry(error, tries)) {
            throw error;
          }
          this.#options.log.debug({ node, method, error: messageOf(error) }, 'the NodeManager does not respond; trying again');
          return { again: messageOf(error) };
        }
      });
      if ('result' in outcome) {
        return { response: outcome.result, repeated: tries > 1 };
      }
      if (this.#closed) {
        throw closedError();
      }
      throw new TonyError('RPC_UNREACHABLE', `The NodeManager did not respond to ${method}. The last attempt failed: ${outcome.reason}`);
    } finally {
      this.#rounds.delete(round);
      this.#busy--;
      this.#waiting.shift()?.();
    }
  }

  close(): void {
    this.#closed = true;
    for (const round of this.#rounds) {
      round.close();
    }
    for (const [node, connection] of this.#connections) {
      this.#drop(node, connection);
    }
    for (const go of this.#waiting.splice(0)) {
      go();
    }
  }

  async #turn(): Promise<void> {
    while (!this.#closed && this.#busy >= MAX_CONCURRENT_CALLS) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#busy++;
  }

  async #callOnce<Request extends keyof HadoopMessages>(
    node: string,
    method: string,
    requestName: Request,
    request: HadoopMessages[Request],
  ): Promise<Buffer> {
    if (this.#closed) {
      throw closedError();
    }
    const connection = this.#connect(node);
    connection.calls++;
    try {
      return await connection.ipc.call(method, requestName, request, this.#options.callTimeoutMs);
    } finally {
      connection.calls--;
      if (!connection.ipc.usable) {
        this.#drop(node, connection);
      } else if (connection.calls === 0) {
        this.#rest(node, connection);
      }
    }
  }

  #connect(node: string): NodeConnection {
    const known = this.#connections.get(node);
    if (known?.ipc.usable) {
      if (known.idle !== null) {
        clearTimeout(known.idle);
      }
      known.idle = null;
      return known;
    }
    const token = this.#options.tokens.get(node);
    if (token === undefined) {
      throw new TonyError('CREDENTIALS_INVALID', `The ResourceManager sent no token for the NodeManager ${node}.`);
    }
    const ipc = new IpcConnection({
      endpoint: endpointOfNode(node),
      protocol: PROTOCOL,
      caller: { token, minimumQop: this.#options.minimumQop },
      clientId: this.#clientId,
      connectTimeoutMs: this.#options.callTimeoutMs,
    });
    const connection = { ipc, calls: 0, idle: null };
    this.#connections.set(node, connection);
    return connection;
  }

  #rest(node: string, connection: NodeConnection): void {
    if (this.#connections.size > MAX_IDLE_CONNECTIONS) {
      this.#drop(node, connection);
      return;
    }
    connection.idle = setTimeout(() => this.#drop(node, connection), this.#options.idleCloseMs);
    connection.idle.unref();
  }

  #drop(node: string, connection: NodeConnection): void {
    if (connection.idle !== null) {
      clearTimeout(connection.idle);
    }
    connection.ipc.close();
    if (this.#connections.get(node) === connection) {
      this.#connections.delete(node);
    }
  }
}

/** Returns true if the NodeManager may be restarting, because it is unreachable or reports that it is not ready. */
function isWorthAnotherTry(error: unknown, tries: number): boolean {
  if (error instanceof RemoteError) {
    return error.is('NMNotYetReadyException', 'RetriableException');
  }
  if (!(error instanceof TonyError)) {
    return false;
  }
  // Retry a few times: a NodeManager closes the connection during authentication not only if it does not know the token, but also while it
  // is shutting down. An invalid frame, which may come from an attacker, is treated like a broken connection.
  if (error.code === 'RPC_DENIED' || error.code === 'RPC_MISMATCH') {
    return tries < 3;
  }
  return error.code === 'RPC_UNREACHABLE' || error.code === 'RPC_UNAVAILABLE';
}

function closedError(): TonyError {
  return new TonyError('RPC_ENDED', 'The connections to the NodeManagers were closed.');
}

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

type ContainerFailures = Pick<HadoopMessages['StartContainersResponseProto'], 'failed_requests'>;

interface QueuedStart {
  readonly container: AllocatedContainer;
  readonly context: LaunchContext;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Maximum number of containers per call, to limit the size of requests. */
const MAX_BATCH = 32;
const TYPES = { archive: 'ARCHIVE', file: 'FILE' } as const;
const VISIBILITIES = { public: 'PUBLIC', private: 'PRIVATE', application: 'APPLICATION' } as const;
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
    const answer = await this.#connections.call(
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
    const answer = await this.#connections.call(
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

  /** Closes all connections and rejects pending calls with RPC_ENDED. */
  close(): void {
    this.#connections.close();
  }

  async #startBatch(node: string, batch: readonly QueuedStart[]): Promise<void> {
    try {
      const request = { start_container_request: batch.map(messageOfStart) };
      const answer = await this.#connections.call(
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

function stateOf(state: HadoopMessages['ContainerStatusProto']['state']): ContainerState['state'] {
  switch (state) {
    case 'C_RUNNING':
      return 'RUNNING';
    case 'C_COMPLETE':
      return 'COMPLETE';
    default:
      return 'NEW';
  }
}

function messageOfStart({ container, context }: QueuedStart): HadoopMessages['StartContainerRequestProto'] {
  return { container_launch_context: messageOfContext(context), container_token: messageOfToken(container.token) };
}

function messageOfContext(context: LaunchContext): HadoopMessages['ContainerLaunchContextProto'] {
  const { acls } = context;
  return {
    localResources: context.localResources.map(messageOfResource),
    tokens: encodeCredentials(context.credentials),
    environment: Object.entries(launchEnvironment(context.environment)).map(([key, value]): HadoopMessages['StringStringMapProto'] => ({
      key,
      value,
    })),
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

function messageOfResource(resource: LocalResource): HadoopMessages['StringLocalResourceMapProto'] {
  return {
    key: resource.name,
    value: {
      resource: messageOfUri(resource.uri),
      size: String(resource.size),
      timestamp: String(resource.timestamp),
      type: TYPES[resource.type],
      visibility: VISIBILITIES[resource.visibility],
    },
  };
}

/**
 * Converts a URI to a message. YARN encodes the path itself, so the path in the message must not be percent-encoded. Only file:// URIs are
 * percent-encoded, so only they must be decoded first. Port -1 stands for a URI without a port.
 */
function messageOfUri(text: string): HadoopMessages['URLProto'] {
  const [, scheme, host = '', port, path] = /^([a-z][a-z0-9+.-]*):\/\/(\[[^\]]*\]|[^/:]*)(?::(\d+))?(\/.*)$/is.exec(text) ?? [];
  if (scheme === undefined || path === undefined) {
    throw new TonyError('INTERNAL', `"${text}" is not a resource URI.`);
  }
  return {
    scheme,
    host: host === '' ? undefined : host,
    port: port === undefined ? -1 : Number(port),
    file: scheme === 'file' ? decodeURIComponent(path) : path,
  };
}
