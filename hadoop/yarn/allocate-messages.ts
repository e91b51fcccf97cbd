import type { tokenOfMessage } from '../rpc/credentials.ts';
import {
  type AllocatedContainer,
  type CompletedContainer,
  type ContainerIdMessage,
  type ContainerMessage,
  type ContainerStatusMessage,
  completedOfMessage,
  containerIdOfMessage,
  containerOfMessage,
  MEMORY,
  messageOfContainerId,
  messageOfResources,
  type NodeTokenMessage,
  type ResourceMessage,
  type Resources,
  resourcesOfMessage,
  VCORES,
} from '../rpc/records.ts';
import type { Ask, AskRequest } from './ask-ledger.ts';

/** The addresses that the ApplicationMaster registers with the ResourceManager. */
export interface RegisteredAddress {
  readonly host: string;
  readonly rpcPort: number;
  readonly trackingUrl: string;
}

export interface YarnRegistration {
  /** Resources of the largest container that the cluster can allocate. */
  readonly maximum: Resources;
  /**
   * Names of all resource types. Empty if the registration response was lost. In that case, the client checks the allocated containers
   * instead of the asks.
   */
  readonly resourceTypes: readonly string[];
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

export interface FinalApplicationStatus {
  readonly status: 'SUCCEEDED' | 'FAILED' | 'KILLED';
  readonly diagnostics: string;
  readonly trackingUrl: string;
}

/** RegisterApplicationMasterResponseProto in yarn_service_protos.proto. */
export interface RegisterResponse {
  readonly maximumCapability?: ResourceMessage;
  readonly containers_from_previous_attempts: readonly ContainerMessage[];
  readonly queue?: string;
  readonly nm_tokens_from_previous_attempts: readonly NodeTokenMessage[];
  readonly resource_types: readonly { readonly name: string; readonly units?: string }[];
}

/** AllocateResponseProto in yarn_service_protos.proto. */
export interface AllocateResponse {
  readonly a_m_command?: 'AM_RESYNC' | 'AM_SHUTDOWN';
  readonly response_id?: number;
  readonly allocated_containers: readonly ContainerMessage[];
  readonly completed_container_statuses: readonly ContainerStatusMessage[];
  readonly limit?: ResourceMessage;
  readonly num_cluster_nodes?: number;
  readonly preempt?: {
    readonly strictContract?: { readonly container: readonly { id?: ContainerIdMessage }[] };
    readonly contract?: { readonly container: readonly { id?: ContainerIdMessage }[] };
  };
  readonly nm_tokens: readonly NodeTokenMessage[];
  readonly am_rm_token?: Parameters<typeof tokenOfMessage>[0];
  readonly containers_from_previous_attempts: readonly ContainerMessage[];
}

/**
 * Builds an AllocateRequestProto.
 * @param units the unit of each resource type, from the registration response
 */
export function allocateMessage(request: AskRequest, progress: number, units: ReadonlyMap<string, string>): object {
  const { asks, releases, avoid, readmit, responseId } = request;
  return {
    ask: asks.flatMap((ask) => messagesOfAsk(ask, units)),
    release: releases.map(messageOfContainerId),
    ...(avoid.length + readmit.length > 0 ? { blacklist_request: { blacklist_additions: avoid, blacklist_removals: readmit } } : {}),
    response_id: responseId,
    progress,
  };
}

/**
 * Returns the ResourceRequestProtos for an ask. An ask for any host needs only the entry `*`. An ask for one host also needs entries for
 * the host and its rack: otherwise, the scheduler allocates nothing. The scheduler accepts a node label only on the entry `*`.
 */
function messagesOfAsk(ask: Ask, units: ReadonlyMap<string, string>): object[] {
  const message = (name: string, relax: boolean, label: string | null): object => ({
    priority: { priority: ask.priority },
    resource_name: name,
    capability: messageOfResources(ask.resources, units),
    num_containers: ask.count,
    relax_locality: relax,
    ...(label === null ? {} : { node_label_expression: label }),
    allocation_request_id: ask.allocationRequestId,
  });
  const { place, nodeLabel } = ask;
  return place === undefined
    ? [message('*', true, nodeLabel)]
    : [message(place.host, true, null), message(place.rack, false, null), message('*', false, nodeLabel)];
}

/**
 * Converts an AllocateResponseProto. The result does not contain `refusedAsks`, because the ResourceManager reports rejected asks as
 * exceptions.
 */
export function allocateResultOf(response: AllocateResponse): AllocateResult {
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

export const EMPTY_RESULT: AllocateResult = {
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
export function mergeResults(results: readonly AllocateResult[]): AllocateResult {
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
export function extrasOf(resources: Resources): Resources {
  return Object.fromEntries(Object.entries(resources).filter(([name, amount]) => name !== MEMORY && name !== VCORES && amount > 0));
}

/** Returns true if a container lacks a requested resource, such as a GPU. Without this check, a job could silently train on CPUs. */
export function lacksResources(wanted: Ask | undefined, container: AllocatedContainer): boolean {
  return Object.entries(extrasOf(wanted?.resources ?? {})).some(([name, amount]) => (container.resources[name] ?? 0) < amount);
}
