import type { Role } from '../../conf/job.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

/** What all parts of the model share. */
export interface World {
  readonly timeline: Timeline;
  readonly random: Random;
  /** Faults come before this; afterwards the day is a good one, and a job that can finish has to. */
  readonly faultsEnd: number;
  /** Failures that the machine may charge, at most. */
  charges: number;
  /** Every port that is bound has a number of its own. */
  ports: number;
  readonly violations: string[];
  /** Null when nobody will read it. */
  readonly trace: string[] | null;
}

export function trace(world: World, line: () => string): void {
  world.trace?.push(`${(world.timeline.now / 1000).toFixed(3).padStart(9)}  ${line()}`);
}

export function violate(world: World, what: string): void {
  world.violations.push(`${(world.timeline.now / 1000).toFixed(3)} s: ${what}`);
  trace(world, () => `VIOLATION ${what}`);
}

export function role(changes: Partial<Role> & Pick<Role, 'name'>): Role {
  return {
    instances: 1,
    maxInstances: changes.instances ?? 1,
    resources: { memoryMb: 1024, vcores: 1, gpus: 0, other: {} },
    command: 'node train.ts',
    env: {},
    nodeLabel: null,
    restart: { policy: 'on-failure', maxRestarts: 3 },
    tracking: 'tracked',
    chief: false,
    ranked: false,
    servesParameters: false,
    ...changes,
  };
}
