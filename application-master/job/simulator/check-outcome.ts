import { isTracked } from '../../../conf/job.ts';
import { inGang } from '../../../conf/role-conditions.ts';
import type { JobResult } from '../../../conf/status/status.ts';
import { jobOf, type MachineState, nameOf } from '../state/job-state.ts';
import { isElastic, isGivenUp, isMember } from '../state/membership.ts';
import { isChief } from '../state/ranks.ts';
import type { Cluster } from './cluster.ts';
import type { Training } from './training.ts';
import { violate, type World } from './world.ts';

export interface FinishedRun {
  readonly world: World;
  readonly state: MachineState;
  readonly result: JobResult;
  readonly cluster: Cluster;
  readonly training: Training;
  readonly roomy: boolean;
  readonly killed: boolean;
  /** True if no fault affected a task. */
  readonly calm: boolean;
  /** Number of times that the ApplicationMaster crashed while training was not making progress. */
  readonly earlyCrashes: number;
}

export function checkOutcome(run: FinishedRun): void {
  checkContainers(run);
  checkBudgets(run);
  checkJobBudget(run);
  checkStarts(run);
  if (run.result.state === 'killed' && !(run.killed && run.result.message === 'killed by a user')) {
    violate(run.world, 'killed although no user killed it');
  }
  if (run.result.state === 'failed') {
    checkFailure(run);
  }
  if (run.result.state === 'succeeded') {
    checkSuccess(run);
  }
  checkEffort(run);
}

function checkContainers({ world, cluster }: FinishedRun): void {
  for (const each of cluster.containers.values()) {
    if (each.phase !== 'ended' && !each.reported) {
      violate(world, `${each.container.id} leaks`);
    }
  }
}

function checkBudgets({ world, state }: FinishedRun): void {
  const failures = state.tasks.reduce((sum, task) => sum + task.failures.charged, 0);
  if (failures > world.charges) {
    violate(world, `${failures} failures were charged, but at most ${world.charges} occurred`);
  }
  for (const task of state.tasks) {
    if (task.role.spare) {
      continue;
    }
    const allowed = task.role.restart.policy === 'never' ? 1 : task.role.restart.maxRestarts + 1;
    if (task.failures.charged > allowed) {
      violate(world, `${nameOf(task)} failed ${task.failures.charged} times, but only ${allowed} failures are allowed`);
    }
  }
}

/** Verifies that the job's limit on restarts holds. The failure that exceeds the limit ends the job. */
function checkJobBudget({ world, state }: FinishedRun): void {
  const { maxRestarts } = jobOf(state).restart;
  const failures = state.tasks.reduce((sum, { role, failures: { charged } }) => sum + (role.kind === 'sidecar' ? 0 : charged), 0);
  const givenUp = state.tasks.filter(isGivenUp).length;
  if (maxRestarts !== null && failures > maxRestarts + Math.max(1, givenUp)) {
    violate(world, `${failures} failures were charged, but the job allows only ${maxRestarts} restarts`);
  }
}

function checkStarts({ world, state }: FinishedRun): void {
  const starts = state.tasks.reduce((sum, task) => sum + task.programStarts, 0);
  if (starts > world.starts) {
    violate(world, `${starts} starts of programs were counted, but only ${world.starts} occurred`);
  }
}

function checkFailure({ world, state, result: { message } }: FinishedRun): void {
  const decisive = state.decision?.task ?? null;
  const task = state.tasks.find(({ role, index }) => role.name === decisive?.role && index === decisive.index);
  if (task?.role.spare) {
    violate(world, `failed because of ${nameOf(task)}`);
  }
  if (message.length < 20) {
    violate(world, 'failed without a reason');
  }
  if (Buffer.byteLength(message) > 8_192) {
    violate(world, 'failed with a message that is too long');
  }
  // In an elastic role, a failed task may make the job fail only if too few tasks remain.
  if (task !== undefined && decisive?.why === 'restarts' && isElastic(task.role) && !isChief(task)) {
    const left = state.tasks.filter((each) => each.role === task.role && !isGivenUp(each));
    if (left.length >= task.role.instances) {
      violate(world, `failed because of ${nameOf(task)}, although ${left.length} tasks of its role remain`);
    }
  }
}

function checkSuccess({ world, state, training }: FinishedRun): void {
  const { successPolicy } = jobOf(state);
  const deciding =
    successPolicy === 'chief'
      ? state.tasks.filter(isChief)
      : state.tasks.filter((task) => isTracked(task.role) && (!isElastic(task.role) || isMember(task)));
  if (deciding.length === 0) {
    violate(world, 'succeeded without any task that decides the result');
  }
  const generations = new Set<number>();
  for (const task of deciding) {
    if (successPolicy === 'ended' && isGivenUp(task) && !isChief(task)) {
      continue;
    }
    if (task.programStarts === 0) {
      violate(world, `succeeded, but counted no start of ${nameOf(task)}`);
    }
    const generation = training.succeeded.get(nameOf(task));
    if (generation === undefined) {
      violate(world, `succeeded without ${nameOf(task)}`);
    } else if (inGang(task.role)) {
      generations.add(generation);
    }
  }
  if (generations.size > 1) {
    violate(world, `succeeded with ranked tasks of generations ${[...generations]}`);
  }
  if (successPolicy === 'all' && state.tasks.some((task) => isTracked(task.role) && !isElastic(task.role) && isGivenUp(task))) {
    violate(world, 'succeeded with a tracked task that failed');
  }
}

/** Verifies that no generation was formed without a reason, and that a job with enough restarts succeeded. */
function checkEffort({ world, state, result, roomy, killed, calm, earlyCrashes }: FinishedRun): void {
  const job = jobOf(state);
  if (calm && roomy && state.generation > 1 + earlyCrashes && !job.roles.some(isElastic)) {
    violate(world, `generation ${state.generation} was formed although no fault had harmed a task`);
  }
  const needed = job.roles.filter((each) => !each.spare);
  const ofJob = job.restart.maxRestarts ?? Number.POSITIVE_INFINITY;
  const budget = Math.min(ofJob, ...needed.map((each) => (each.restart.policy === 'never' ? 0 : each.restart.maxRestarts)));
  const mustSucceed = roomy && !killed && world.charges <= budget && needed.every((each) => each.restart.policy === 'on-failure');
  if (mustSucceed && result.state !== 'succeeded') {
    violate(world, `a job that could have succeeded ended as ${result.state}: ${result.message}`);
  }
}
