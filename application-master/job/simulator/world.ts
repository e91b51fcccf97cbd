import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export interface World {
  readonly timeline: Timeline;
  readonly random: Random;
  /** Time in ms after which faults no longer occur. From then on, a job that can finish must finish. */
  readonly faultsEnd: number;
  charges: number;
  ports: number;
  readonly violations: string[];
  readonly trace: string[] | null;
}

export function trace(world: World, line: () => string): void {
  world.trace?.push(`${(world.timeline.now / 1000).toFixed(3).padStart(9)}  ${line()}`);
}

export function violate(world: World, what: string): void {
  world.violations.push(`${(world.timeline.now / 1000).toFixed(3)} s: ${what}`);
  trace(world, () => `VIOLATION ${what}`);
}
