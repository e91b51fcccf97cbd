import { conditionsOf, inGang } from '../../conf/role-conditions.ts';
import type { ElasticStatus, JobStatus, OrphanedContainer, TaskStatus, TensorBoardStatus } from '../../conf/status/status.ts';
import { predecessorsOf } from './ending.ts';
import { describeGangPause, describeNewestFailure, describePredecessors, describeWait, predecessorsEndAt } from './pending-reasons.ts';
import { describeHeldRoles } from './role-order.ts';
import { progressOf } from './state/job-progress.ts';
import { type Decision, isOver, type MachineState, nameOf, placeOf, type Task } from './state/job-state.ts';
import { awaitedTasks, elasticRole, isIndependentlyReplaceable, isMember } from './state/membership.ts';
import { mergedMetrics } from './state/snapshot.ts';

/** How long a task must wait, in ms, before the status mentions the wait. Shorter waits are normal. */
const REPORTED_WAIT_MS = 5_000;

export function statusOf(state: MachineState, now: number): JobStatus {
  const { frozen, decision } = state;
  const progress = decision === null ? progressOf(state) : null;
  return {
    id: frozen.jobId,
    name: frozen.job.name,
    user: frozen.user,
    queue: frozen.job.queue,
    ...(decision === null
      ? phaseOf({ ...state, now: Math.max(now, state.now) })
      : phase(decision.result.state, decision.result.message, { failedTask: failedTaskOf(decision) })),
    masterAttempt: state.attempt,
    generations: state.gang === null ? Math.max(0, ...state.tasks.map((task) => task.generation)) : state.generation,
    // The client's clock may be fast.
    createdAt: Math.min(frozen.submittedAt, state.startedAt),
    startedAt: state.startedAt,
    finishedAt: decision?.at ?? null,
    step: stepOf(state),
    ...(progress !== null && { progress }),
    metrics: mergedMetrics(state),
    checkpointStep: state.training.checkpointStep,
    checkpointUri: frozen.checkpointDir,
    summaryUri: frozen.summaryDir,
    notices: state.training.notices.map(({ task, text }) => (task === '' ? text : `${task}: ${text}`)),
    failure: state.firstFailure?.failure ?? null,
    tensorboard: tensorBoardOf(state),
    elastic: elasticOf(state),
    master: null,
    tasks: state.tasks.filter(isListed).map((task) => taskStatus(state, task, now)),
    orphanedContainers: orphansOf(state, Math.max(now, state.now)),
  };
}

type Phase = Pick<JobStatus, 'state' | 'message' | 'waitingMs' | 'predecessorsEndInMs' | 'failedTask'>;

function phase(state: Phase['state'], message: string, facts: Partial<Phase> = {}): Phase {
  return { state, message, waitingMs: null, predecessorsEndInMs: null, failedTask: null, ...facts };
}

function phaseOf(state: MachineState): Phase {
  if (state.admission.held !== null) {
    return phase(state.admission.held === '' ? 'starting' : 'waiting', state.admission.held);
  }
  const awaited = awaitedTasks(state).filter((task) => task.role.kind !== 'sidecar');
  const waited = awaited.filter((task) => task.state === 'requested' || task.state === 'launching');
  // The gang does not form while it waits for other roles.
  const gang = state.tasks.some((task) => inGang(task.role) && task.wait.held) ? null : state.gang;
  const ranWell = gang === null ? waited.length === 0 && awaited.every((task) => task.state !== 'registered') : gang.phase === 'started';
  const since = gang === null ? Math.min(state.now, ...waited.map((task) => task.wait.since)) : gang.since;
  const long = waited.length > 0 && state.cluster.registration !== null && state.now - since >= REPORTED_WAIT_MS;
  const blocked = awaited.filter(
    (task) => task.state === 'registered' && task.executor?.program === null && predecessorsOf(state, task).length > 0,
  );
  const unfenced = blocked.filter((task) => !inGang(task.role) || isIndependentlyReplaceable(state.frozen.job, task.role));
  const message = [
    ...(long ? [describeWait(state, waited), describeGangPause(state)] : []),
    ...describePredecessors(state, unfenced),
    ...describeHeldRoles(state),
  ]
    .filter((sentence) => sentence !== '')
    .join(' ');
  const endAt = predecessorsEndAt(state, unfenced);
  const durations = { waitingMs: long ? state.now - since : null, predecessorsEndInMs: endAt === null ? null : endAt - state.now };
  if (ranWell) {
    return phase('running', message, durations);
  }
  // Without a gang, tasks start individually, so a task that starts for the first time is not being recovered.
  const before =
    gang === null
      ? awaited.some((task) => task.generation > 0 && (waited.includes(task) || (task.state === 'registered' && task.attempts > 1)))
      : state.generation > 0;
  const failed = newestFailed(state, awaited);
  if (before) {
    // The failure stays visible while the job waits, because it is what the user must mend.
    const facts = failed === undefined ? {} : { failedTask: { role: failed.role.name, index: failed.index } };
    const failure = failed === undefined ? '' : `${nameOf(failed)}: ${describeNewestFailure(failed)}`;
    const separator = failure === '' || message === '' ? '' : '. ';
    return phase('recovering', `${failure}${separator}${message}`, { ...durations, ...facts });
  }
  return phase(long ? 'waiting' : 'starting', message, durations);
}

/** Returns the task whose failure the job recovers from, or undefined if the recovery has another reason. */
function newestFailed({ generation }: MachineState, awaited: readonly Task[]): Task | undefined {
  // Without a gang, no generation is counted, and all programs run in the first one.
  const failed = awaited.filter((task) => task.failures.newest !== null && task.generation === Math.max(1, generation) && !isOver(task));
  const causes = failed.filter(({ failures }) => failures.newest?.cost !== 'victim');
  return (causes.length > 0 ? causes : failed).toSorted((one, other) => other.failures.newestAt - one.failures.newestAt)[0];
}

function failedTaskOf({ task }: Decision): JobStatus['failedTask'] {
  return task === null || task.why === 'late' ? null : { role: task.role, index: task.index };
}

/**
 * Returns the job's TensorBoard status. TensorBoard is the only spare role, and is ready once its task has metrics.
 */
function tensorBoardOf(state: MachineState): TensorBoardStatus {
  const task = state.tasks.find(({ role }) => role.spare);
  if (task === undefined) {
    return { state: 'off', message: '' };
  }
  const notice = state.training.notices.findLast((each) => each.task === nameOf(task))?.text ?? '';
  if (state.decision !== null) {
    return { state: 'unavailable', message: 'The job has ended.' };
  }
  switch (task.state) {
    case 'requested': {
      const again = task.failures.newest === null ? '' : `TensorBoard is restarting: ${describeNewestFailure(task)}`;
      return { state: 'waiting', message: again === '' && task.wait.asked ? 'TensorBoard waits for a container.' : again };
    }
    case 'launching':
    case 'registered':
      return { state: 'starting', message: '' };
    case 'running':
      return { state: task.progress.metrics.ready === 1 ? 'ready' : 'starting', message: notice };
    case 'succeeded':
      return { state: 'unavailable', message: notice === '' ? 'TensorBoard has ended.' : notice };
    case 'failed':
    case 'lost':
    case 'stopped':
      return { state: 'unavailable', message: notice === '' ? describeNewestFailure(task) : notice };
  }
}

function elasticOf(state: MachineState): ElasticStatus | null {
  const role = elasticRole(state.frozen.job);
  if (role === null) {
    return null;
  }
  const running = state.gang?.phase === 'forming' ? 0 : state.tasks.filter((task) => task.role === role && isMember(task)).length;
  return { role: role.name, running, min: role.instances, max: role.maxInstances };
}

function orphansOf({ ending }: MachineState, now: number): OrphanedContainer[] {
  return [...ending.values()].flatMap(({ role, index, containerId, node, attached, reported, until }) =>
    reported === 'presumed' && until > now
      ? [{ role, index: index < 0 ? null : index, containerId, node, attached, mayRunForMs: until - now }]
      : [],
  );
}

/** Returns true if the status lists the task. An optional task in an elastic role is listed only once it has had a container. */
function isListed(task: Task): boolean {
  return task.index < task.role.instances || task.attempts > 0;
}

/** Returns rank 0's step, or the highest step of any task if no task has a rank. */
function stepOf(state: MachineState): number {
  const first = state.tasks.find((task) => task.rank === 0);
  return first === undefined ? Math.max(0, ...state.tasks.map((task) => taskStep(state, task))) : taskStep(state, first);
}

/** Returns the step from which the task continues or, after the job's end, the step of its metrics. */
function taskStep({ decision }: MachineState, { progress }: Task): number {
  return decision === null ? progress.step : progress.reportedStep;
}

function taskStatus(state: MachineState, task: Task, now: number): TaskStatus {
  const place = placeOf(task);
  return {
    role: task.role.name,
    index: task.index,
    state: task.state,
    rank: task.rank,
    generation: task.generation,
    attempts: task.attempts,
    programStarts: task.programStarts,
    failures: task.failures.charged,
    containerId: place?.id ?? null,
    node: place?.node ?? null,
    nodeHttp: place?.nodeHttp ?? null,
    step: taskStep(state, task),
    metrics: task.progress.metrics,
    usage: task.executor?.usage ?? null,
    silentMs: task.executor === null ? null : Math.max(0, Math.max(now, state.now) - task.executor.lastHeard),
    exit: task.exit,
    failure: task.failures.newest,
    ...(task.wait.held && { waitsFor: conditionsOf(state.frozen.job, task.role) }),
  };
}
