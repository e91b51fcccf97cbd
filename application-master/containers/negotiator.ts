import type { Role } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status.ts';
import type { ContainerEnd } from '../../conf/task-failure.ts';
import type { Container } from '../job/events.ts';

/**
 * The source of containers: YARN or this machine. Calls return before they take effect. The listener reports everything that happens to a
 * container, including failures, in order.
 */
export interface Negotiator {
  /** Registers this attempt and returns the cluster's capabilities. Throws a TonyError if registration is permanently impossible. */
  register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<Registration>;
  /** Sets the number of containers still wanted for a role. It replaces the previous number. */
  ask(role: Role, count: number, excludedNodes: readonly string[]): void;
  release(containerId: string): void;
  /** Starts the executor in the allocated container. */
  launch(containerId: string, specification: LaunchSpecification): void;
  stop(containerId: string): void;
  /** Reports the end of the job to the cluster and returns all containers. Resolves once the cluster has confirmed it. */
  finish(result: JobResult, trackingUrl: string): Promise<void>;
  /** Stops timers and closes connections. */
  close(): Promise<void>;
}

export interface Registration {
  /** The largest container that the cluster grants, by resource name: `memory-mb`, `vcores`, `yarn.io/gpu`, ... */
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  readonly survivors: readonly Container[];
  readonly queue: string;
}

export interface LaunchSpecification {
  readonly environment: Readonly<Record<string, string>>;
  /** A shell command without special characters; everything else is passed in the environment or in files. */
  readonly command: string;
  /** Entries of the container's credentials (CREDENTIALS in conf/job.ts). */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
}

export interface NegotiatorListener {
  allocated(containers: readonly Container[]): void;
  askRefused(role: string, message: string): void;
  launchFailed(containerId: string, message: string): void;
  ended(containerId: string, end: ContainerEnd, exitStatus: number, diagnostics: string): void;
  /**
   * The cluster is about to preempt these containers for another application. It may still find resources elsewhere. Reported once per
   * container.
   */
  preempting(containerIds: readonly string[]): void;
  cluster(nodes: number, headroom: Readonly<Record<string, number>>): void;
  /** The ResourceManager no longer recognises this attempt, or orders it to exit: exit immediately without unregistering. */
  fenced(message: string): void;
}
