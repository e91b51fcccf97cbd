import type { Role } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status/status.ts';
import type { ContainerEnd } from '../../conf/status/task-failure.ts';
import type { Container } from '../job/state/events.ts';

/**
 * The source of containers: YARN or the local machine. Methods return before the operation has taken effect. The listener then receives all
 * events of a container in order, including failures.
 */
export interface Negotiator {
  /** Registers this attempt and returns the cluster's capabilities. Throws a TonyError if registration cannot succeed. */
  register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<Registration>;
  /** Sets the number of containers to allocate for a role; replaces the previous number. */
  ask(role: Role, count: number, excludedNodes: readonly string[]): void;
  release(containerId: string): void;
  launch(containerId: string, specification: LaunchSpecification): void;
  stop(containerId: string): void;
  /** Reports the end of the job to the cluster and returns all containers. Resolves when the cluster has confirmed the report. */
  finish(result: JobResult, trackingUrl: string): Promise<void>;
  close(): Promise<void>;
}

export interface Registration {
  /** Resources of the largest container that the cluster allocates, keyed by resource name: `memory-mb`, `vcores`, `yarn.io/gpu`, ... */
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  readonly survivors: readonly Container[];
  readonly queue: string;
}

export interface LaunchSpecification {
  readonly environment: Readonly<Record<string, string>>;
  /** Shell command without special characters. All variable data is in the environment or in files. */
  readonly command: string;
  /** Entries for the container's credentials file (CREDENTIALS in conf/job.ts). */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
}

export interface NegotiatorListener {
  allocated(containers: readonly Container[]): void;
  askRefused(role: string, message: string): void;
  launchFailed(containerId: string, message: string): void;
  ended(containerId: string, end: ContainerEnd, exitStatus: number, diagnostics: string): void;
  /**
   * The cluster has announced that it will preempt these containers for another application. The cluster may withdraw the announcement.
   * Each container is announced once.
   */
  preempting(containerIds: readonly string[]): void;
  cluster(nodes: number, headroom: Readonly<Record<string, number>>): void;
  /** The ResourceManager has removed this attempt or orders it to exit. Exit immediately without unregistering. */
  fenced(message: string): void;
}
