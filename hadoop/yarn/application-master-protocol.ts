import { pause } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { parseContainerId } from '../rpc/application-id.ts';
import { type Token, tokenOfMessage } from '../rpc/credentials.ts';
import {
  type AllocatedContainer,
  type CompletedContainer,
  completedOfMessage,
  containerIdOfMessage,
  containerOfMessage,
  MEMORY,
  messageOfContainerId,
  messageOfResources,
  nodeOfMessage,
  type Resources,
  resourcesOfMessage,
  VCORES,
} from '../rpc/records.ts';
import { RemoteError } from '../rpc/remote-error.ts';
import {
  type Ask,
  type AskLedger,
  type AskRequest,
  ask,
  askKey,
  avoid,
  cancel,
  EMPTY_LEDGER,
  forgetReleases,
  hasOpenAsks,
  release,
  requestAnswered,
  requestFailed,
  reregistered,
  takeAsk,
  takeRequest,
} from './ask-ledger.ts';
import { SchedulerConnection, type SchedulerOptions } from './scheduler-connection.ts';

/** The addresses that the ApplicationMaster registers with the ResourceManager. */
interface RegisteredAddress {
  readonly host: string;
  readonly rpcPort: number;
  readonly trackingUrl: string;
}

interface YarnRegistration {
  /** Resources of the largest container that the cluster can allocate. */
  readonly maximum: Resources;
  /**
   * Names of all resource types. Empty if the registration response was lost. In that case, the client checks the allocated containers
   * instead of the asks.
   */
  readonly resourceTypes: readonly string[];
  /** False if the scheduler takes only memory into account, or if the registration response was lost. */
  readonly countsAll: boolean;
  readonly queue: string;
  /** The previous attempt's containers that are still running. */
  readonly previousContainers: readonly AllocatedContainer[];
}

export interface AllocateResult {
  readonly allocated: readonly AllocatedContainer[];
  readonly completed: readonly CompletedContainer[];
  /** The previous attempt's running containers that the ResourceManager did not yet know about when the ApplicationMaster registered. */
  readonly previousContainers: readonly AllocatedContainer[];
  /** Resources that this application can still allocate in its queue. */
  readonly headroom: Resources;
  readonly nodes: number;
  /** IDs of containers that YARN is about to preempt. YARN reports each ID only once. */
  readonly preempting: readonly string[];
  /**
   * Asks that the client has cancelled, because the ResourceManager rejected them or because an allocated container lacked a requested
   * resource.
   */
  readonly refusedAsks: readonly { readonly ask: Ask; readonly message: string }[];
  /** True if the client has registered again because the ResourceManager has restarted. */
  readonly reregistered: boolean;
}

interface FinalApplicationStatus {
  readonly status: 'SUCCEEDED' | 'FAILED' | 'KILLED';
  readonly diagnostics: string;
  readonly trackingUrl: string;
}

/**
 * Builds an AllocateRequestProto.
 * @param units the unit of each resource type, from the registration response
 */
function allocateMessage(
  request: AskRequest,
  progress: number,
  units: ReadonlyMap<string, string>,
): HadoopMessages['AllocateRequestProto'] {
  const { asks, releases, avoid, readmit, responseId } = request;
  return {
    ask: asks.flatMap((ask) => messagesOfAsk(ask, units)),
    release: releases.map(messageOfContainerId),
    blacklist_request: avoid.length + readmit.length > 0 ? { blacklist_additions: avoid, blacklist_removals: readmit } : undefined,
    response_id: responseId,
    progress,
  };
}

/**
 * Returns the ResourceRequestProtos for an ask. An ask for any host needs only the entry `*`. An ask for one host also needs entries for
 * the host and its rack: otherwise, the scheduler allocates nothing. The scheduler accepts a node label only on the entry `*`.
 */
function messagesOfAsk(ask: Ask, units: ReadonlyMap<string, string>): HadoopMessages['ResourceRequestProto'][] {
  const message = (name: string, relax: boolean, label: string | undefined): HadoopMessages['ResourceRequestProto'] => ({
    priority: { priority: ask.priority },
    resource_name: name,
    capability: messageOfResources(ask.resources, units),
    num_containers: ask.count,
    relax_locality: relax,
    node_label_expression: label,
    allocation_request_id: String(ask.allocationRequestId),
  });
  const { place } = ask;
  const label = ask.nodeLabel ?? undefined;
  return place === undefined
    ? [message('*', true, label)]
    : [message(place.host, true, undefined), message(place.rack, false, undefined), message('*', false, label)];
}

/**
 * Converts an AllocateResponseProto. The result does not contain `refusedAsks`, because the ResourceManager reports rejected asks as
 * exceptions.
 */
function allocateResultOf(response: HadoopMessages['AllocateResponseProto']): AllocateResult {
  const { strictContract, contract } = response.preempt ?? {};
  return {
    allocated: response.allocated_containers.map(containerOfMessage),
    completed: response.completed_container_statuses.map(completedOfMessage),
    previousContainers: response.containers_from_previous_attempts.map(containerOfMessage),
    headroom: resourcesOfMessage(response.limit),
    nodes: response.num_cluster_nodes ?? 0,
    preempting: [...(strictContract?.container ?? []), ...(contract?.container ?? [])].map(({ id }) => containerIdOfMessage(id)),
    refusedAsks: [],
    reregistered: false,
  };
}

const EMPTY_RESULT: AllocateResult = {
  allocated: [],
  completed: [],
  previousContainers: [],
  headroom: {},
  nodes: 0,
  preempting: [],
  refusedAsks: [],
  reregistered: false,
};

/**
 * Merges the results of several requests, which must be given in order. Fields that describe the current state come from the last result.
 */
function mergeResults(results: readonly AllocateResult[]): AllocateResult {
  return results.reduce(
    (sum, next) => ({
      allocated: [...sum.allocated, ...next.allocated],
      completed: [...sum.completed, ...next.completed],
      previousContainers: [...sum.previousContainers, ...next.previousContainers],
      headroom: Object.keys(next.headroom).length > 0 ? next.headroom : sum.headroom,
      nodes: next.nodes > 0 ? next.nodes : sum.nodes,
      preempting: [...sum.preempting, ...next.preempting],
      refusedAsks: [...sum.refusedAsks, ...next.refusedAsks],
      reregistered: sum.reregistered || next.reregistered,
    }),
    EMPTY_RESULT,
  );
}

/** Returns the resources other than memory and vcores. */
function extrasOf(resources: Resources): Resources {
  return Object.fromEntries(Object.entries(resources).filter(([name, amount]) => name !== MEMORY && name !== VCORES && amount > 0));
}

/** Returns true if a container lacks a requested resource, such as a GPU. Without this check, a job could silently train on CPUs. */
function lacksResources(wanted: Ask | undefined, container: AllocatedContainer): boolean {
  return Object.entries(extrasOf(wanted?.resources ?? {})).some(([name, amount]) => (container.resources[name] ?? 0) < amount);
}

/** Maximum number of rejected requests per heartbeat. */
const MAX_OBJECTIONS_PER_HEARTBEAT = 8;
const REPEAT_FINISH_MS = 50;

/**
 * The client that an ApplicationMaster uses to communicate with the ResourceManager (ApplicationMasterProtocol). The client handles lost
 * responses, ResourceManager restarts and failovers, and new tokens. All methods throw ATTEMPT_FENCED if the ResourceManager has removed
 * the attempt.
 */
export class ApplicationMasterClient {
  readonly #log: Logger;
  readonly #connection: SchedulerConnection;
  readonly #nodeTokens = new Map<string, Token>();
  #ledger: AskLedger = EMPTY_LEDGER;
  #address: RegisteredAddress | null = null;
  #maximum: Resources = {};
  #units: ReadonlyMap<string, string> = new Map();
  /**
   * Results for the next successful heartbeat to return. A heartbeat may send several requests, of which a later one may fail, so the
   * results of the earlier ones must be kept.
   */
  readonly #undelivered: AllocateResult[] = [];
  /** Runs heartbeats one after the other, because each request must contain the previous response's ID. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: SchedulerOptions) {
    this.#log = options.log;
    this.#connection = new SchedulerConnection(options);
  }

  /** NodeManager tokens, keyed by `host:port`. The ResourceManager sends a node's token only with the first container on that node. */
  get nodeTokens(): ReadonlyMap<string, Token> {
    return this.#nodeTokens;
  }

  /** True while containers are requested. The ApplicationMaster should then send heartbeats every 100 to 250 ms instead of every second. */
  get hasOpenAsks(): boolean {
    return hasOpenAsks(this.#ledger);
  }

  async register(address: RegisteredAddress): Promise<YarnRegistration> {
    this.#address = address;
    return await this.#register(address);
  }

  /**
   * Sets the number of containers to allocate for a priority and an allocation request ID. The next heartbeat sends this ask. Each
   * allocated container then reduces the number by one. Throws RESOURCE_NOT_FOUND if the cluster does not have the resource type.
   */
  setAsk(wanted: Ask): void {
    if (wanted.count > 0) {
      this.#check(wanted);
    }
    this.#ledger = ask(this.#ledger, wanted);
  }

  release(containerId: string): void {
    parseContainerId(containerId);
    this.#ledger = release(this.#ledger, containerId);
  }

  /** Sets the hosts on which YARN must not allocate containers for this application. */
  setAvoidedHosts(hosts: ReadonlySet<string>): void {
    this.#ledger = avoid(this.#ledger, hosts);
  }

  /**
   * Sends a heartbeat. Resolves when a ResourceManager has responded.
   * @param progress a number from 0 to 1
   */
  async heartbeat(progress: number): Promise<AllocateResult> {
    const turn = this.#turn.then(() => this.#heartbeat(Math.min(1, Math.max(0, progress))));
    this.#turn = turn.catch(() => undefined);
    return await turn;
  }

  /**
   * Unregisters the ApplicationMaster. Resolves when the ResourceManager has stored the final status. After that, the ResourceManager kills
   * the remaining containers.
   */
  async finish(final: FinalApplicationStatus, timeoutMs = 15_000): Promise<void> {
    const end = performance.now() + timeoutMs;
    const request: HadoopMessages['FinishApplicationMasterRequestProto'] = {
      diagnostics: final.diagnostics,
      tracking_url: final.trackingUrl,
      final_application_status: `APP_${final.status}`,
    };
    for (;;) {
      try {
        const leftMs = end - performance.now();
        const call = this.#connection.call(
          'finishApplicationMaster',
          'FinishApplicationMasterRequestProto',
          request,
          'FinishApplicationMasterResponseProto',
        );
        const answer = await withTimeout(call, leftMs, () => {
          throw new TonyError(
            'RM_UNREACHABLE',
            `The ResourceManager did not confirm within ${Math.round(leftMs)} ms that the application has ended.`,
          );
        });
        // The application is in the FINISHING state until the ResourceManager has stored the final status. The ResourceManager stores it
        // even without further calls.
        if (answer.isUnregistered === true) {
          return;
        }
        if (performance.now() + REPEAT_FINISH_MS > end) {
          return;
        }
      } catch (error) {
        if (!(error instanceof RemoteError)) {
          throw error;
        }
        // The ResourceManager has already removed the attempt, because an earlier call succeeded and its response was lost.
        if (error.is('ApplicationAttemptNotFoundException')) {
          throw fenced(error);
        }
        if (!error.is('ApplicationMasterNotRegisteredException') || this.#address === null || performance.now() > end) {
          throw error;
        }
        await this.#register(this.#address);
        continue;
      }
      await pause(REPEAT_FINISH_MS);
    }
  }

  /** Closes the connection and rejects pending calls with RPC_ENDED. */
  close(): void {
    this.#connection.close();
  }

  async #register(address: RegisteredAddress): Promise<YarnRegistration> {
    let response: HadoopMessages['RegisterApplicationMasterResponseProto'];
    try {
      response = await this.#connection.call(
        'registerApplicationMaster',
        'RegisterApplicationMasterRequestProto',
        { host: address.host, rpc_port: address.rpcPort, tracking_url: address.trackingUrl },
        'RegisterApplicationMasterResponseProto',
      );
    } catch (error) {
      if (!(error instanceof RemoteError)) {
        throw error;
      }
      if (error.is('ApplicationAttemptNotFoundException')) {
        throw fenced(error);
      }
      if (!error.is('InvalidApplicationMasterRequestException') || !error.remoteMessage.includes('already registered')) {
        throw error;
      }
      this.#log.warn(
        'this attempt is already registered, but the response was lost: the maximum container size, the resource types and the earlier containers are unknown',
      );
      return { maximum: this.#maximum, resourceTypes: [...this.#units.keys()], countsAll: false, queue: '', previousContainers: [] };
    }
    this.#units = new Map(response.resource_types.map(({ name, units }) => [name, units ?? '']));
    this.#maximum = resourcesOfMessage(response.maximumCapability);
    this.#keepTokens(response.nm_tokens_from_previous_attempts);
    return {
      maximum: this.#maximum,
      resourceTypes: [...this.#units.keys()],
      countsAll: response.scheduler_resource_types.includes('CPU'),
      queue: response.queue ?? '',
      previousContainers: response.containers_from_previous_attempts.map(containerOfMessage),
    };
  }

  /** Throws for unknown resource types. YARN would ignore them and allocate containers without these resources. */
  #check(wanted: Ask): void {
    if (this.#units.size === 0) {
      return;
    }
    const unknown = Object.keys(extrasOf(wanted.resources)).find((name) => !this.#units.has(name));
    if (unknown !== undefined) {
      throw new TonyError(
        'RESOURCE_NOT_FOUND',
        `The cluster has no resource type ${unknown}; it has ${[...this.#units.keys()].join(', ')}.`,
      );
    }
  }

  async #heartbeat(progress: number): Promise<AllocateResult> {
    if (this.#address === null) {
      throw new TonyError('INTERNAL', 'A heartbeat was sent before the ApplicationMaster had registered.');
    }
    for (let objections = 1; ; objections++) {
      const taken = takeRequest(this.#ledger);
      try {
        await this.#allocate(taken, progress);
        return mergeResults(this.#undelivered.splice(0));
      } catch (error) {
        if (!(error instanceof RemoteError)) {
          throw error;
        }
        if (error.is('ApplicationAttemptNotFoundException')) {
          throw fenced(error);
        }
        if (objections > MAX_OBJECTIONS_PER_HEARTBEAT) {
          throw error;
        }
        if (error.is('ApplicationMasterNotRegisteredException')) {
          await this.#reregister();
        } else if (isAskRefused(error) && taken.request.asks.length > 0) {
          await this.#allocateOneByOne(taken.request, progress);
        } else if (!this.#dropRefused(error, taken.request) && !this.#adoptResponseId(error)) {
          throw error;
        }
      }
    }
  }

  async #allocate({ ledger, request }: ReturnType<typeof takeRequest>, progress: number): Promise<void> {
    this.#ledger = ledger;
    const message = allocateMessage(request, progress, this.#units);
    let response: HadoopMessages['AllocateResponseProto'];
    try {
      response = await this.#connection.call('allocate', 'AllocateRequestProto', message, 'AllocateResponseProto');
    } catch (error) {
      this.#ledger = requestFailed(this.#ledger, request);
      throw error;
    }
    this.#received(request, response);
    if (response.a_m_command === 'AM_SHUTDOWN') {
      throw new TonyError('ATTEMPT_FENCED', 'The ResourceManager ordered this attempt to shut down.');
    }
    if (response.a_m_command === 'AM_RESYNC') {
      await this.#reregister();
    }
  }

  #received(request: AskRequest, response: HadoopMessages['AllocateResponseProto']): void {
    if (response.am_rm_token !== undefined) {
      this.#connection.replaceToken(tokenOfMessage(response.am_rm_token));
    }
    this.#keepTokens(response.nm_tokens);
    const result = allocateResultOf(response);
    const asked = this.#ledger.asks;
    const lacking = result.allocated.filter((container) => lacksResources(asked.get(askKey(container)), container));
    this.#ledger = requestAnswered(this.#ledger, request, {
      responseId: response.response_id ?? request.responseId + 1,
      allocated: result.allocated,
      completed: result.completed.map(({ id }) => id),
    });
    this.#undelivered.push({
      ...result,
      allocated: result.allocated.filter((container) => !lacking.includes(container)),
      refusedAsks: this.#giveBack(lacking, asked),
    });
  }

  #giveBack(lacking: readonly AllocatedContainer[], asked: AskLedger['asks']): AllocateResult['refusedAsks'] {
    for (const { id } of lacking) {
      this.#ledger = release(this.#ledger, id);
    }
    return [...new Set(lacking.map(askKey))].flatMap((key) => {
      const open = this.#ledger.asks.get(key);
      if (open !== undefined) {
        this.#ledger = cancel(this.#ledger, open);
      }
      const refused = asked.get(key);
      if (refused === undefined) {
        return [];
      }
      const names = Object.keys(extrasOf(refused.resources)).join(', ');
      return [
        {
          ask: refused,
          message: `The cluster allocated a container without the requested ${names}, because it does not know this resource type.`,
        },
      ];
    });
  }

  async #reregister(): Promise<void> {
    if (this.#address === null) {
      throw new TonyError('INTERNAL', 'The client cannot register again, because it has never registered.');
    }
    this.#log.warn('the ResourceManager no longer knows this attempt; registering again');
    const registration = await this.#register(this.#address);
    this.#ledger = reregistered(this.#ledger);
    this.#undelivered.push({ ...EMPTY_RESULT, previousContainers: registration.previousContainers, reregistered: true });
  }

  /** Sends each ask in a separate request, to find out which ask the ResourceManager rejects. */
  async #allocateOneByOne(request: AskRequest, progress: number): Promise<void> {
    for (const item of request.asks) {
      const taken = takeAsk(this.#ledger, askKey(item));
      if (taken === null) {
        continue;
      }
      try {
        await this.#allocate(taken, progress);
      } catch (error) {
        if (!(error instanceof RemoteError)) {
          throw error;
        }
        // The next complete request fails with the same error, so the error need not be handled here.
        if (!isAskRefused(error)) {
          return;
        }
        const refused = taken.request.asks[0] ?? item;
        this.#ledger = cancel(this.#ledger, refused);
        this.#undelivered.push({ ...EMPTY_RESULT, refusedAsks: [{ ask: refused, message: this.#whyRefused(refused, error) }] });
      }
    }
  }

  #whyRefused(refused: Ask, error: RemoteError): string {
    const tooLarge = Object.entries(refused.resources).find(([name, amount]) => amount > (this.#maximum[name] ?? Number.POSITIVE_INFINITY));
    if (tooLarge === undefined) {
      return messageOf(error);
    }
    const [name, amount] = tooLarge;
    return `The job requested a container with ${name} ${amount}, but the cluster's largest container has ${this.#maximum[name]}. ${error.remoteMessage}`;
  }

  /** If releases or avoided hosts caused the rejection, drops them and returns true. Otherwise, returns false. */
  #dropRefused(error: RemoteError, request: AskRequest): boolean {
    if (error.is('InvalidContainerReleaseException') && request.releases.length > 0) {
      this.#ledger = forgetReleases(this.#ledger, request.releases);
    } else if (error.is('InvalidResourceBlacklistRequestException') && request.avoid.length > 0) {
      this.#ledger = avoid(this.#ledger, this.#ledger.sentAvoided);
    } else {
      return false;
    }
    this.#log.error({ error: messageOf(error) }, 'the ResourceManager rejects part of the heartbeat; omitting this part');
    return true;
  }

  /**
   * Continues with the response ID N from the error "Invalid responseId in AllocateRequest ..., expect responseId to be N, but get M".
   * Returns false for other errors.
   */
  #adoptResponseId(error: RemoteError): boolean {
    const expected = error.is('InvalidApplicationMasterRequestException')
      ? /expect responseId to be (\d+)/.exec(error.remoteMessage)?.[1]
      : undefined;
    if (expected === undefined || Number(expected) === this.#ledger.responseId) {
      return false;
    }
    this.#log.warn(
      { expected: Number(expected), was: this.#ledger.responseId },
      'continuing with the response ID that the ResourceManager expects',
    );
    this.#ledger = { ...this.#ledger, responseId: Number(expected) };
    return true;
  }

  #keepTokens(tokens: readonly HadoopMessages['NMTokenProto'][]): void {
    for (const { nodeId, token } of tokens) {
      if (token !== undefined) {
        this.#nodeTokens.set(nodeOfMessage(nodeId), tokenOfMessage(token));
      }
    }
  }
}

function fenced(cause: RemoteError): TonyError {
  return new TonyError('ATTEMPT_FENCED', `The ResourceManager no longer knows this attempt: ${cause.remoteMessage}`, { cause });
}

function isAskRefused(error: RemoteError): boolean {
  return error.is('InvalidResourceRequestException', 'InvalidLabelResourceRequestException');
}
