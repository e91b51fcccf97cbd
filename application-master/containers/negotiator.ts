import type { Role } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status/status.ts';
import type { ContainerEnd } from '../../hadoop/yarn/container-exit.ts';
import type { Container } from '../job/state/events.ts';
import type { Registration } from '../job/state/job-state.ts';

/**
 * Provides containers, either from YARN or on the local machine. Each method only starts an operation. The listener receives each
 * container's events in order, including failures.
 */
export interface Negotiator {
  /** Registers this attempt and returns the cluster's capabilities. Throws a TonyError if registration cannot succeed. */
  register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<RegistrationResult>;
  /** Sets the number of containers that a role still needs. Replaces the role's previous request. */
  ask(role: Role, count: number, excludedNodes: readonly string[]): void;
  release(containerId: string): void;
  launch(containerId: string, specification: LaunchSpecification): void;
  stop(containerId: string): void;
  /** Reports the job's result to the cluster and releases all containers. Resolves when the cluster has confirmed the report. */
  finish(result: JobResult, trackingUrl: string): Promise<void>;
  close(): Promise<void>;
}

export interface RegistrationResult extends Registration {
  readonly survivors: readonly Container[];
}

export interface LaunchSpecification {
  readonly environment: Readonly<Record<string, string>>;
  /** Shell command that contains no user input. */
  readonly command: string;
  /** Entries in the container's credentials file, keyed by the names in CREDENTIALS (conf/job.ts). */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
}

export interface NegotiatorListener {
  allocated(containers: readonly Container[]): void;
  askRefused(role: string, message: string): void;
  launchFailed(containerId: string, message: string): void;
  ended(containerId: string, end: ContainerEnd, exitStatus: number, diagnostics: string): void;
  /**
   * The cluster will soon preempt these containers for another application, unless the cluster withdraws its preemption request. Each
   * container is reported only once.
   */
  preempting(containerIds: readonly string[]): void;
  cluster(nodes: number, headroom: Readonly<Record<string, number>>): void;
  /** The ResourceManager has removed this attempt or has ordered it to exit. The attempt must exit without unregistering. */
  fenced(message: string): void;
}
