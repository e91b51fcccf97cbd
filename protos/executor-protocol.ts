import type { ServiceDefinition } from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';
import type * as protobuf from 'protobufjs';
import descriptor from './tony.json' with { type: 'json' };

/*
 * TypeScript types of the stream between an executor and the ApplicationMaster. tony.proto documents the fields. Missing sub-messages are
 * undefined; missing scalars have their zero value.
 */

export interface ExecutorMessage {
  readonly hello?: Hello;
  readonly heartbeat?: Heartbeat;
  readonly ready?: { readonly generation: number; readonly port: number };
  readonly started?: { readonly generation: number; readonly pid: number };
  readonly exited?: Exited;
  readonly left?: Readonly<Record<string, never>>;
}

export interface Hello {
  readonly containerId: string;
  readonly proof: Uint8Array;
  readonly role: string;
  readonly index: number;
  readonly generation: number;
  readonly phase: 'IDLE' | 'RUNNING' | 'ENDED';
  readonly host: string;
  readonly port: number;
  readonly masterAttempt: number;
  readonly exited?: Exited | null;
  readonly progress?: ProgressMessage | null;
}

export interface Heartbeat {
  readonly generation: number;
  readonly usage?: UsageMessage | null;
  readonly progress?: ProgressMessage | null;
}

export interface UsageMessage {
  readonly rssBytes: number;
  readonly cpuCores: number;
  readonly gpus?: readonly {
    readonly index: number;
    readonly utilization: number;
    readonly memoryUsedBytes: number;
    readonly memoryTotalBytes: number;
  }[];
  readonly stopped: boolean;
}

export interface ProgressMessage {
  readonly step: number;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly lostRank?: number;
  readonly notices?: readonly Notice[];
  readonly earlyEnd?: { readonly step: number; readonly reason: string };
  readonly ending?: boolean;
  readonly total?: number;
}

export interface Notice {
  readonly text: string;
  readonly about: string;
}

export interface Exited {
  readonly generation: number;
  readonly code: number;
  readonly signal: string;
  readonly stderrTail: string;
  readonly permanent?: boolean;
}

export interface MasterMessage {
  readonly welcome?: Welcome;
  readonly prepare?: { readonly generation: number };
  readonly start?: { readonly generation: number; readonly members?: readonly MemberMessage[] };
  readonly stop?: { readonly reason: string; readonly atOnce?: boolean };
  readonly checkpoint?: { readonly generation: number };
  readonly tokens?: { readonly credentials: Uint8Array };
  readonly session?: { readonly id: string };
}

export interface Welcome {
  readonly masterAttempt: number;
  readonly intervalMs: number;
  readonly leaseMs: number;
  readonly command: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface MemberMessage {
  readonly role: string;
  readonly index: number;
  readonly host: string;
  readonly port: number;
  readonly rank?: number;
}

export interface ServiceRequest {
  readonly containerId: string;
  readonly proof: Uint8Array;
  readonly generation: number;
  readonly service: string;
  readonly body: Uint8Array;
}

export interface ServiceAnswer {
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

export function executorService(): ServiceDefinition {
  return serviceNamed('tony.ApplicationMaster');
}

export function serviceNamed(name: 'tony.ApplicationMaster' | 'tony.Feed' | 'tony.Sessions'): ServiceDefinition {
  return fromJSON(descriptor as protobuf.INamespace, { longs: Number, defaults: true, oneofs: true, enums: String })[
    name
  ] as ServiceDefinition;
}

/** DNS name in every job's certificate. It does not depend on the host on which the ApplicationMaster runs. */
export const CERTIFICATE_NAME = 'tony-ts';
