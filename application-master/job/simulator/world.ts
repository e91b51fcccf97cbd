import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export type FaultKind = 'exit' | 'signal' | 'stopped' | 'executor' | 'memory' | 'cluster' | 'launch';

export interface World {
  readonly timeline: Timeline;
  readonly random: Random;
  /** Time in ms after which faults no longer occur. From then on, a job that can finish must finish. */
  readonly faultsEnd: number;
  charges: number;
  /** How many programs executors have started. */
  starts: number;
  /** The faults that have struck each container. */
  readonly struck: Map<string, Set<FaultKind>>;
  /** True if a program has lost its peers although it is running. The job machine cannot determine which one. */
  hasSilencedProgram: boolean;
  /** Longest delay of a message in ms. */
  readonly slowestMs: number;
  ports: number;
  readonly violations: string[];
  readonly trace: string[] | null;
}

export function trace(world: World, line: () => string): void {
  world.trace?.push(`${(world.timeline.now / 1000).toFixed(3).padStart(9)}  ${line()}`);
}

export function strike(world: World, containerId: string, kind: FaultKind): void {
  world.struck.set(containerId, (world.struck.get(containerId) ?? new Set()).add(kind));
}

export function violate(world: World, what: string): void {
  world.violations.push(`${(world.timeline.now / 1000).toFixed(3)} s: ${what}`);
  trace(world, () => `VIOLATION ${what}`);
}
