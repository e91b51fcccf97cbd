import type { Job } from '../../../conf/job.ts';
import { demandOf } from '../../../conf/quotas.ts';
import { inGang } from '../../../conf/role-conditions.ts';
import type { HistoryEntry } from '../../../conf/status/status.ts';
import type { FailureCause } from '../../../conf/status/task-failure.ts';
import { LIMITS, type MachineState } from '../state/job-state.ts';
import { awaitedTasks } from '../state/membership.ts';
import type { Cluster } from './cluster.ts';
import { type FaultKind, violate, type World } from './world.ts';

/**
 * Verifies that the job never has more containers than the quotas count. Counts at most one container per task, because a replacement may
 * start before the previous container has ended.
 */
export function checkPeak(world: World, job: Job, { containers }: Cluster): void {
  const held = [...containers.values()].filter(({ phase }) => phase === 'launching' || phase === 'live');
  const counts = job.roles.map(({ name, maxInstances }) =>
    Math.min(maxInstances, held.filter(({ container }) => container.role === name).length),
  );
  const sum = counts.reduce((all, count) => all + count, 0);
  const peak = demandOf(job).peak.instances ?? 0;
  if (sum > peak) {
    violate(world, `the job holds ${sum} containers at the same time, but the quotas count only ${peak}`);
  }
}

/** Time in ms by which a stalled ApplicationMaster may exceed its limits. */
const STALL_MS = 30_000;

/** Verifies that an incomplete gang returns its containers if the cluster has allocated no more of them for a while. */
export class HoldCheck {
  #held = 0;
  #since = 0;

  observe(world: World, state: MachineState): void {
    const tasks = state.gang?.phase === 'forming' ? awaitedTasks(state).filter(({ role }) => inGang(role)) : [];
    const lacks = tasks.some((task) => task.state === 'requested' && task.wait.notBefore <= state.now);
    const held = lacks ? tasks.filter(({ container }) => container !== null).length : 0;
    if (held !== this.#held || held === 0) {
      this.#held = held;
      this.#since = state.now;
    }
    // A role may first avoid the nodes on which it has failed.
    const most = (state.generation === 0 ? LIMITS.longestHoldMs : LIMITS.rejoinHoldMs) + LIMITS.choosyMs + STALL_MS;
    if (state.now - this.#since > most) {
      violate(world, `an incomplete gang has held ${held} containers for ${state.now - this.#since} ms`);
    }
  }
}

/** The causes that the job machine may tell for each fault. The ApplicationMaster may detect a loss before the cluster reports it. */
const TOLD: Readonly<Record<FaultKind, readonly FailureCause['kind'][]>> = {
  exit: ['program'],
  signal: ['program'],
  stopped: ['stopped', 'blamed'],
  executor: ['container', 'program', 'silent', 'unanswered', 'inconsistent'],
  memory: ['container', 'program', 'silent', 'unanswered'],
  cluster: ['container', 'program', 'silent', 'unanswered', 'inconsistent', 'blamed', 'stopped'],
  launch: ['container', 'launch', 'unheard'],
};

/** Verifies that a charged task was struck by a fault itself, and that the job machine tells this fault. */
export function checkCharge(world: World, { type, role, index, containerId, failure }: HistoryEntry): void {
  if (type !== 'task-failed' || failure?.cost !== 'charged' || world.hasSilencedProgram) {
    return;
  }
  const kinds = [...(world.struck.get(containerId ?? '') ?? [])];
  const { cause } = failure;
  const detail = cause.kind === 'program' ? `${cause.exit.signal ?? cause.exit.code}` : cause.kind;
  if (kinds.length === 0) {
    violate(world, `${role}:${index} in ${containerId} is charged (${detail}), although no fault has struck it`);
  } else if (!kinds.some((kind) => TOLD[kind].includes(cause.kind))) {
    violate(world, `${role}:${index} is charged with ${detail}, but the fault was ${kinds}`);
  }
  if (kinds.length === 1 && cause.kind === 'program') {
    const expected = kinds[0] === 'exit' ? cause.exit.code !== null : kinds[0] === 'signal' ? cause.exit.signal === 'SIGKILL' : true;
    if (!expected) {
      violate(world, `${role}:${index} is charged with ${detail}, but the fault was ${kinds}`);
    }
  }
}
