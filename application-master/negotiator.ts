import type { Role } from '../conf/job.ts';
import type { JobResult } from '../conf/status.ts';
import type { ContainerEnd } from '../hadoop/container-exit.ts';
import type { Container } from './events.ts';

/**
 * Where containers come from: YARN or this machine. Calls never throw for what happens later: everything that a container
 * goes through comes back through the listener, in order.
 */
export interface Negotiator {
  /** Registers this attempt; answers what the cluster can give. Throws a TonyError when it never can. */
  register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<Registration>;
  /** Absolute count of containers still wanted for a role. */
  ask(role: Role, count: number, excludedNodes: readonly string[]): void;
  release(containerId: string): void;
  /** Starts the executor in an allocated container. */
  launch(containerId: string, specification: LaunchSpecification): void;
  stop(containerId: string): void;
  /** Tells the cluster the job's end and gives everything back; resolves when the cluster has taken note. */
  finish(result: JobResult, trackingUrl: string): Promise<void>;
  /** Ends timers and connections. */
  close(): Promise<void>;
}

export interface Registration {
  /** Largest container by resource name: memory-mb, vcores, yarn.io/gpu, ... */
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  readonly survivors: readonly Container[];
  readonly queue: string;
}

export interface LaunchSpecification {
  readonly environment: Readonly<Record<string, string>>;
  /** Plain words for a shell: everything else is in the environment or in files. */
  readonly command: string;
  /** Credentials entries for this container (CREDENTIALS in conf/job.ts). */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
}

export interface NegotiatorListener {
  allocated(containers: readonly Container[]): void;
  askRefused(role: string, message: string): void;
  launchFailed(containerId: string, message: string): void;
  ended(containerId: string, end: ContainerEnd, exitStatus: number, diagnostics: string): void;
  cluster(nodes: number, headroom: Readonly<Record<string, number>>): void;
  /** The resource manager no longer knows this attempt, or asks it to go: end at once, unregister nothing. */
  fenced(message: string): void;
}
