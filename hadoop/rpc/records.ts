import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { type ContainerId, formatContainerId, parseContainerId } from './application-id.ts';
import { type Token, tokenOfMessage } from './credentials.ts';

/* YARN's records in two forms: the result of `decodeMessage`, and the form that the rest of the code uses. */

/** Resource amounts, keyed by YARN's resource names: memory-mb, vcores, yarn.io/gpu, ... */
export type Resources = Readonly<Record<string, number>>;

export interface AllocatedContainer {
  /** Container ID in YARN's string form. */
  readonly id: string;
  /** The NodeManager's RPC address (`host:port`). */
  readonly node: string;
  /** The NodeManager's web address (`host:port`). */
  readonly nodeHttp: string;
  /** The resources that YARN has allocated. They may exceed the request, because YARN rounds memory up. */
  readonly resources: Resources;
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly token: Token;
}

export interface CompletedContainer {
  readonly id: string;
  readonly exitStatus: number;
  readonly diagnostics: string;
}

/** A container's ID contains its epoch and its sequence number, as `epoch << 40 | sequence`. */
const SEQUENCE_BITS = 40n;

export function containerIdOfMessage(message: HadoopMessages['ContainerIdProto'] | undefined): string {
  const application = message?.app_attempt_id?.application_id;
  const whole = BigInt(message?.id ?? 0);
  const id: ContainerId = {
    epoch: Number(whole >> SEQUENCE_BITS),
    application: { clusterTimestamp: Number(application?.cluster_timestamp ?? 0), sequence: application?.id ?? 0 },
    attempt: message?.app_attempt_id?.attemptId ?? 0,
    sequence: Number(whole & ((1n << SEQUENCE_BITS) - 1n)),
  };
  return formatContainerId(id);
}

export function messageOfContainerId(text: string): HadoopMessages['ContainerIdProto'] {
  const id = parseContainerId(text);
  return {
    app_attempt_id: {
      application_id: { id: id.application.sequence, cluster_timestamp: String(id.application.clusterTimestamp) },
      attemptId: id.attempt,
    },
    id: String((BigInt(id.epoch) << SEQUENCE_BITS) | BigInt(id.sequence)),
  };
}

export const MEMORY = 'memory-mb';
export const VCORES = 'vcores';

export function resourcesOfMessage(message: HadoopMessages['ResourceProto'] | undefined): Resources {
  const resources: Record<string, number> = { [MEMORY]: Number(message?.memory ?? 0), [VCORES]: message?.virtual_cores ?? 0 };
  for (const { key, value } of message?.resource_value_map ?? []) {
    if (key !== MEMORY && key !== VCORES) {
      resources[key] = Number(value ?? 0);
    }
  }
  return resources;
}

/**
 * Encodes resource amounts. YARN accepts memory and vcores only in dedicated fields, and all other types only in the map.
 * @param units the configured unit of each resource type
 */
export function messageOfResources(resources: Resources, units: ReadonlyMap<string, string>): HadoopMessages['ResourceProto'] {
  const others = Object.entries(resources).filter(([key]) => key !== MEMORY && key !== VCORES);
  return {
    memory: String(resources[MEMORY] ?? 0),
    virtual_cores: resources[VCORES] ?? 0,
    resource_value_map: others.map(([key, value]): HadoopMessages['ResourceInformationProto'] => ({
      key,
      value: String(value),
      units: units.get(key) ?? '',
      type: 'COUNTABLE',
    })),
  };
}

export function nodeOfMessage(message: HadoopMessages['NodeIdProto'] | undefined): string {
  return `${message?.host ?? ''}:${message?.port ?? 0}`;
}

/** Splits `host:port`. The host can be an IPv6 address in brackets. */
export function endpointOfNode(node: string): { host: string; port: number } {
  const colon = node.lastIndexOf(':');
  return { host: node.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(node.slice(colon + 1)) };
}

const NO_TOKEN: HadoopMessages['TokenProto'] = { identifier: new Uint8Array(), password: new Uint8Array(), kind: '', service: '' };

export function containerOfMessage(message: HadoopMessages['ContainerProto']): AllocatedContainer {
  return {
    id: containerIdOfMessage(message.id),
    node: nodeOfMessage(message.nodeId),
    nodeHttp: message.node_http_address ?? '',
    resources: resourcesOfMessage(message.resource),
    priority: message.priority?.priority ?? 0,
    allocationRequestId: Number(message.allocation_request_id ?? -1),
    token: tokenOfMessage(message.container_token ?? NO_TOKEN),
  };
}

/** YARN's value for a missing exit status, which means that the container could not be created. */
const INVALID_EXIT_STATUS = -1000;

export function completedOfMessage(message: HadoopMessages['ContainerStatusProto']): CompletedContainer {
  return {
    id: containerIdOfMessage(message.container_id),
    exitStatus: message.exit_status ?? INVALID_EXIT_STATUS,
    diagnostics: message.diagnostics ?? '',
  };
}
