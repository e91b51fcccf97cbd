import type { FrozenJob, Role } from '../../conf/job.ts';
import { inGang } from '../../conf/role-conditions.ts';
import { describeFailure, describeStderr } from '../../conf/status/event-text.ts';
import { lastErrorLine } from '../../conf/status/last-error-line.ts';
import { exitCodeOf, isSignalled } from '../../conf/status/program-signal.ts';
import { endStateOf, type FailureCost, type TaskFailure } from '../../conf/status/task-failure.ts';
import { counted } from '../../conf/values/quantities.ts';
import { unpackingFailure, unusableFile } from '../../hadoop/yarn/container-exit.ts';
import { backoffMs } from '../../platform/async/backoff.ts';
import { isFree } from './ending.ts';
import { type Cause, programEnd, taskFailure } from './state/diagnostics.ts';
import type { ProgramExit } from './state/events.ts';
import { jobOf, LIMITS, type MachineState, nameOf, type Task } from './state/job-state.ts';
import { isElastic, isGivenUp, isIndependentlyReplaceable, restartsAlone } from './state/membership.ts';
import { failuresInARow, sparePause } from './state/spare-task.ts';
import { answerMs, silenceMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

export interface Failure {
  readonly task: Task;
  readonly cause: Cause;
  readonly facts: TaskFailure;
  /** True if the cluster may still report a different cause for the failure. */
  readonly refundable: boolean;
  /**
   * How many consecutive generations failed without making progress, including the current one, or 0 if this failure does not end a
   * generation.
   */
  readonly fruitless: number;
}

/** Returns the reason why the task counts as lost, or null if the task is not lost. */
export function lossOf(state: MachineState, { container, executor, role, startedAt }: Task): Cause | null {
  if (container === null) {
    return null;
  }
  if (executor === null) {
    return container.reattachBy !== null && state.now >= container.reattachBy ? { kind: 'gone' } : null;
  }
  const job = jobOf(state);
  const msSince = (time: number | null | undefined) => (typeof time === 'number' ? state.now - Math.max(time, state.heardFloor) : 0);
  // A failed exit explains the failure better than the executor's silence does, because whatever made the program exit may also have killed
  // the executor. `nextFailure` decides when the exit is charged.
  if (executor.pendingExit !== null && executor.lostRank === null) {
    return null;
  }
  const silent = msSince(executor.lastHeard);
  if (silent >= silenceMs(job)) {
    return { kind: 'silent', ms: silent };
  }
  const stopped = msSince(executor.stoppedSince);
  if (stopped >= silenceMs(job)) {
    return { kind: 'stopped', ms: stopped };
  }
  if (role.timeoutMs !== null && startedAt !== null && executor.program?.phase === 'running' && state.now - startedAt >= role.timeoutMs) {
    return { kind: 'time-limit', ms: role.timeoutMs };
  }
  const unanswered = msSince(executor.awaiting?.since);
  if (executor.awaiting === null || unanswered < answerMs(job, role)) {
    return null;
  }
  return { kind: 'unanswered', order: executor.awaiting.answer === 'ready' ? 'prepare' : 'start', ms: unanswered };
}

/**
 * Counts a failure against the task's restarts. A failure that ends a generation also counts against the gang's restarts, because a bug may
 * cause a different task to fail each time. `maxRestarts` limits both counts. They decrease only if it later turns out that the cluster
 * caused the failure.
 */
export function chargeFailure(transition: Transition, task: Task, cause: Cause): Failure {
  const { state } = transition;
  const cost = costOf(state, task, cause);
  const charged = cost === 'charged';
  const { failures } = task;
  transition.update(task.slot, {
    failures: {
      charged: failures.charged + (charged ? 1 : 0),
      free: failures.free + (charged ? 0 : 1),
      unstarted: wasStarted(task) ? 0 : failures.unstarted + 1,
      inARow: task.role.spare ? failuresInARow(state, task) : failures.inARow,
    },
  });
  return {
    task,
    cause,
    facts: taskFailure(cause, cost, task.role, task.container?.node ?? null),
    refundable: charged && mayBeCorrected(cause),
    fruitless: charged && !restartsAlone(state, task) ? countFruitless(transition) : 0,
  };
}

/** Records a failure in the history and in the task's status. Also records the job's first failure. */
export function recordFailure(transition: Transition, { task, cause, facts }: Failure): void {
  const { role, index } = task;
  transition.recordTask('task-failed', task, { generation: task.generation, failure: facts });
  const suspect = task.container !== null && facts.cost !== 'victim' && speaksAgainstNode(cause) && !role.spare;
  transition.update(task.slot, {
    exit: facts.cause.kind === 'program' ? facts.cause.exit : task.exit,
    failures: {
      newest: facts,
      newestAt: transition.now,
      nodes: suspect ? [...task.failures.nodes, task.container.node].slice(-LIMITS.notices) : task.failures.nodes,
      launch: cause.kind === 'launch' || cause.kind === 'unheard' ? describeFailure(facts, role.name) : task.failures.launch,
    },
  });
  transition.dirty = true;
  if (facts.cost === 'charged' && transition.state.firstFailure === null && role.kind !== 'sidecar') {
    transition.patch({ firstFailure: { failure: { role: role.name, index, ...facts }, containerId: task.container?.id ?? null } });
  }
}

/**
 * Corrects a charged failure when the cluster later reports that it ended the container, or that the container exceeded its memory limit.
 */
export function correctFailure(transition: Transition, containerId: string, cause: Extract<Cause, { kind: 'container' }>): void {
  const ending = transition.state.ending.get(containerId);
  if (ending?.refundable !== true) {
    return;
  }
  const task = transition.state.tasks.find((each) => each.role.name === ending.role && each.index === ending.index);
  if (task === undefined || (!isFree(cause.end) && cause.end !== 'memory-exceeded')) {
    return;
  }
  // The ApplicationMaster itself stopped or released the container, so the container's end is not the cause of the failure.
  if (cause.end === 'stopped-by-master' || cause.end === 'released') {
    return;
  }
  const free = isFree(cause.end);
  const failure = taskFailure(cause, free ? 'free' : 'charged', task.role, null);
  transition.recordTask('failure-corrected', task, { containerId, failure });
  const { charged, free: notCharged, newestAt } = task.failures;
  transition.update(task.slot, { failures: free ? { charged: Math.max(0, charged - 1), free: notCharged + 1 } : {} });
  // The task may have failed again since, in its next container.
  if (newestAt <= ending.since) {
    const hasFailed = task.state === 'failed' || task.state === 'lost';
    transition.update(task.slot, { failures: { newest: failure }, state: hasFailed ? endStateOf(cause) : task.state });
  }
  if (transition.state.firstFailure?.containerId === containerId) {
    transition.patch({ firstFailure: free ? null : { failure: { role: task.role.name, index: task.index, ...failure }, containerId } });
  }
  if (free && inGang(task.role) && !isIndependentlyReplaceable(jobOf(transition.state), task.role)) {
    transition.patchGang({ fruitless: Math.max(0, (transition.gang?.fruitless ?? 0) - 1) });
  }
  transition.dirty = true;
}

/** Counts a failed generation. Returns the number of consecutive generations without progress, or 0 if the gang is already forming. */
function countFruitless(transition: Transition): number {
  const { gang, training } = transition.state;
  if (gang === null || gang.phase === 'forming') {
    return 0;
  }
  const fruitful = training.checkpointStep > gang.startedFrom || transition.now - gang.since >= LIMITS.fruitfulMs;
  const fruitless = fruitful ? 0 : gang.fruitless + 1;
  transition.patchGang({ fruitless });
  return fruitless;
}

function costOf(state: MachineState, task: Task, cause: Cause): FailureCost {
  const incident = state.gang?.incident ?? null;
  if (inGang(task.role) && incident !== null && state.now < incident.until && task.executor?.ranIn === incident.generation) {
    return 'victim';
  }
  switch (cause.kind) {
    case 'launch':
    case 'unheard':
    case 'gone':
      return 'free';
    case 'container':
      return isFree(cause.end) ? 'free' : 'charged';
    case 'program':
    case 'silent':
    case 'stopped':
    case 'unanswered':
    case 'inconsistent':
    case 'blamed':
    case 'time-limit':
      return 'charged';
  }
}

/** Returns true if the cluster may later report a different cause, such as a preemption or a lost node. */
function mayBeCorrected(cause: Cause): boolean {
  return cause.kind === 'silent' || cause.kind === 'unanswered' || (cause.kind === 'program' && isSignalled(programEnd(cause.exit)));
}

function speaksAgainstNode(cause: Cause): boolean {
  switch (cause.kind) {
    case 'container':
      return cause.end !== 'preempted' && cause.end !== 'memory-exceeded' && cause.end !== 'stopped-by-master' && cause.end !== 'released';
    case 'gone':
    case 'blamed':
    case 'time-limit':
      return false;
    case 'program':
    case 'launch':
    case 'silent':
    case 'stopped':
    case 'unanswered':
    case 'inconsistent':
    case 'unheard':
      return true;
  }
}

function wasStarted(task: Task): boolean {
  return (task.executor?.ranIn ?? 0) > 0;
}

/**
 * Returns the reason why the task is not restarted, or null if it is restarted. The text completes a sentence that begins with the task's
 * name.
 * - `restarts`: the task may not be restarted. Other tasks may continue without it.
 * - `gang-restarts`: the gang has no restarts left.
 * - `job-restarts`: the job has no restarts left.
 */
export function whyNotRestarted(
  transition: Transition,
  { task, cause, facts: { cost }, fruitless }: Failure,
): { readonly why: 'restarts' | 'gang-restarts' | 'job-restarts'; readonly text: string } | null {
  if (task.role.spare) {
    return null;
  }
  const { charged, free, unstarted } = transition.task(task.slot).failures;
  const { policy, maxRestarts } = task.role.restart;
  // If a bug makes one task after another fail, the job must fail before an elastic role has lost all of its tasks.
  const inVain = isElastic(task.role) ? Math.max(maxRestarts, LIMITS.rounds) : maxRestarts;
  const own = (text: string) => ({ why: 'restarts', text }) as const;
  const together = { why: 'gang-restarts', text: `failed after ${counted(inVain, 'restart')} without a new checkpoint` } as const;
  if (fruitless > inVain && isElastic(task.role)) {
    return together;
  }
  const ofJob = jobOf(transition.state).restart.maxRestarts;
  if (cost === 'charged' && ofJob !== null && task.role.kind !== 'sidecar' && restartsInJob(transition.state) > ofJob) {
    const allowed = counted(ofJob, 'restart is', 'restarts are');
    return { why: 'job-restarts', text: `failed, but only ${allowed} allowed in the whole job (restart.maxRestarts)` };
  }
  if (cost === 'charged' && (policy === 'never' || maxRestarts === 0)) {
    return own('failed, and its role allows no restart');
  }
  if (policy === 'never' && cost !== 'victim' && wasStarted(task)) {
    return own('was lost after its program had started, and its role allows no restart');
  }
  if (cause.kind === 'program' && cost === 'charged' && !isRetried(task.role, cause.exit)) {
    return own(`failed, and its role restarts only after ${describeCodes(task.role.restart.onExitCodes ?? [])}`);
  }
  if (cause.kind === 'program' && cost === 'charged' && cause.exit.permanent && task.role.restart.onExitCodes === null) {
    return own('failed with an error that a restart would repeat');
  }
  if (charged > maxRestarts && cost === 'charged') {
    return own(`failed ${charged} times, but only ${counted(maxRestarts, 'restart is', 'restarts are')} allowed`);
  }
  if (fruitless > inVain) {
    return together;
  }
  if (cause.kind === 'container' && cause.end === 'launch-failed' && unusableFile(cause.diagnostics) !== null) {
    return own('cannot be started');
  }
  if (cannotBeUnpacked(task, cause)) {
    return own('cannot be started, because localisation failed twice in the same way');
  }
  if (unstarted >= LIMITS.unstarted) {
    return own(`could not be started ${unstarted} times in a row`);
  }
  if (free >= LIMITS.freeFailures) {
    return own(`lost its container ${free} times`);
  }
  return null;
}

/**
 * Returns the number of restarts after charged failures in the whole job, including the restart after the newest failure. The last failure of
 * a task without which the job continues causes no restart. The job does not depend on sidecars, so their restarts do not count.
 */
export function restartsInJob(state: MachineState): number {
  return state.tasks
    .filter(({ role }) => role.kind !== 'sidecar')
    .reduce((sum, task) => sum + Math.max(0, task.failures.charged - (isGivenUp(task) ? 1 : 0)), 0);
}

/**
 * Returns true if the task's container could not unpack an archive, like the task's previous container.
 * @param task the task before this failure
 */
function cannotBeUnpacked(task: Task, cause: Cause): boolean {
  const before = task.failures.newest?.cause;
  if (cause.kind !== 'container' || cause.end !== 'launch-failed' || before?.kind !== 'container' || before.end !== 'launch-failed') {
    return false;
  }
  const explanation = unpackingFailure(cause.diagnostics);
  return explanation !== null && unpackingFailure(before.message) === explanation;
}

/** Returns true if `restart.onExitCodes` permits a restart after this exit. */
function isRetried({ restart: { onExitCodes } }: Role, exit: ProgramExit): boolean {
  return onExitCodes === null || onExitCodes.includes(exitCodeOf(programEnd(exit)) ?? 0);
}

function describeCodes(codes: readonly number[]): string {
  return codes.length === 0 ? 'cluster failures (restart.onExitCodes is empty)' : `exit code ${codes.join(', ')} (restart.onExitCodes)`;
}

/**
 * Returns the delay in ms before a failed task requests its next container. The delay grows with each consecutive container in which no
 * program started.
 */
export function restartPause(transition: Transition, slot: number): number {
  const { role, failures } = transition.task(slot);
  if (role.spare) {
    return sparePause(failures.inARow);
  }
  return backoffMs(failures.unstarted - 2, { firstMs: 1_000, mostMs: 30_000 });
}

export function failureDiagnostics(state: MachineState, { task, facts }: Failure, end: string): string {
  const stderr = describeStderr(facts);
  const next = stderr === '' ? ` See its log: tony-ts logs ${state.frozen.jobId} ${nameOf(task)}` : '';
  const advice = isWithoutModule(facts) ? ` ${moduleAdvice(state.frozen, task.role)}` : '';
  return `${nameOf(task)} ${end}: ${describeFailure(facts, task.role.name)}.${next}${advice}${stderr}${describeFirstFailure(state, task, facts)}`;
}

/** Returns the next step if a Python program does not find a module, which depends on the origin of the job's Python packages. */
function moduleAdvice({ job: { python }, cluster }: FrozenJob, role: Role): string {
  switch (python.type) {
    case 'requirements':
      return "The node's own packages are not visible to this job, because it uses python.requirements: add the module to the requirements.";
    case 'archive':
      return 'If the module is an installed package, add it to the environment that python.archive names.';
    case 'system':
      if (cluster.kind === 'yarn' && role.docker !== null) {
        return `If the module is an installed package, add it to the image that roles.${role.name}.docker names.`;
      }
      return cluster.kind === 'local'
        ? 'If the module is an installed package, activate a virtual environment that has it before you submit the job, or list it in python.requirements.'
        : "If the module is an installed package, the node's Python does not have it: list it in python.requirements, or name another Python (docs/frameworks.md#python-on-the-nodes).";
  }
}

/** Returns true if a Python program failed because a module is not installed. */
function isWithoutModule({ lines }: TaskFailure): boolean {
  return lastErrorLine(lines).startsWith('ModuleNotFoundError: ');
}

/** Describes the job's first failure. Returns an empty string if `facts` already describes that failure. */
function describeFirstFailure({ firstFailure }: MachineState, task: Task, facts: TaskFailure): string {
  if (firstFailure === null) {
    return '';
  }
  const { role, index, ...first } = firstFailure.failure;
  const sentence = describeFailure(first, role);
  const stderr = describeStderr(first);
  const isAlike = role === task.role.name && index === task.index && sentence === describeFailure(facts, role);
  if (isAlike && stderr === describeStderr(facts)) {
    return '';
  }
  // The last line of stderr usually contains the error.
  const hasSameError = first.lines.length > 0 && first.lines.at(-1) === facts.lines.at(-1);
  const isSameEnd = describeFailure({ ...first, node: null }, role) === describeFailure({ ...facts, node: null }, task.role.name);
  if (isSameEnd && (hasSameError || stderr === describeStderr(facts))) {
    const where = first.node === null ? '' : ` on ${first.node}`;
    return `\nThe job's first failure: ${role}:${index}${where}, ${hasSameError ? 'with the same error' : 'in the same way'}`;
  }
  return `\nThe job's first failure: ${role}:${index}: ${sentence}${hasSameError ? ', with the same error' : isAlike ? '' : stderr}`;
}
