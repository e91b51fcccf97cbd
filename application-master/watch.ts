import { forgiveNodes, giveBack } from './asks.ts';
import { companionsInTheWay, isCompanion } from './companion.ts';
import { chaseEnding } from './ending.ts';
import { failTask } from './failures.ts';
import { decide } from './finish.ts';
import { endRound, newGeneration } from './gang.ts';
import { shrinkFor, sparesInTheWay } from './growth.ts';
import { isOver, jobOf, LIMITS, nameOf, type Task } from './job-state.ts';
import { isElastic, isExpendable, isMember, memberTasks, restartsAlone } from './membership.ts';
import { answerMs, graceMs, heartbeatIntervalMs, silenceMs } from './pace.ts';
import { seconds } from './sentences.ts';
import type { Turn } from './turn.ts';
import { describeMissing } from './waiting.ts';

/** Everything that happens because time goes by. */
export function watch(turn: Turn): void {
  chaseEnding(turn);
  // A job that may not begin yet has nothing to watch, and its time does not run.
  if (turn.state.result !== null || turn.state.held !== null) return;
  endOverdueJob(turn);
  endIdleJob(turn);
  for (const { slot } of turn.state.tasks) watchTask(turn, slot);
  blamePeers(turn);
  forgiveNodes(turn);
  for (const task of companionsInTheWay(turn.state)) giveBack(turn, task, 'others wait for a container');
  for (const task of sparesInTheWay(turn.state)) giveBack(turn, task, 'the room is needed for another task');
  for (const { slot } of turn.state.tasks) endLoneRound(turn, slot);
  endRound(turn);
}

/** A gap between events so long that this process itself must have been held up: nobody else is to pay for it. */
export function isStall(turn: Turn, before: number): boolean {
  const job = jobOf(turn.state);
  return turn.now - before > Math.max(heartbeatIntervalMs(job) * 2, silenceMs(job) / 2);
}

function endOverdueJob(turn: Turn): void {
  const ran = turn.now - turn.state.startedAt;
  const { timeoutMs } = jobOf(turn.state);
  const { timeout } = turn.state.limits;
  if (timeoutMs !== null && ran >= timeoutMs) {
    fail(turn, `The job ran longer than its timeout of ${seconds(timeoutMs)}. Raise timeout, or let it do less.`);
  } else if (timeout !== null && ran >= timeout.ms) {
    fail(turn, `The job ran longer than the ${seconds(timeout.ms)} that ${timeout.path} of the site file allows. Its checkpoints stay.`);
  }
}

function endIdleJob(turn: Turn): void {
  const { limits, busyAt, result, tasks } = turn.state;
  if (result !== null) return;
  const { idle } = limits;
  // Whoever waits for containers holds none in vain.
  if (!tasks.some((task) => task.state === 'running')) turn.patch({ busyAt: turn.now });
  else if (idle !== null && turn.now - busyAt >= idle.ms) {
    fail(
      turn,
      `The job was idle for ${seconds(idle.ms)}: no program of its computed or reported anything (${idle.path} of the site file).`,
    );
  }
}

function fail(turn: Turn, diagnostics: string): void {
  decide(turn, { state: 'FAILED', diagnostics });
}

function watchTask(turn: Turn, slot: number): void {
  const task = turn.task(slot);
  const { executor, pendingExit } = task;
  if (turn.state.result !== null || task.container === null) return;
  if (executor === null) {
    if (task.reattachBy !== null && turn.now >= task.reattachBy) failTask(turn, slot, { kind: 'gone' });
    return;
  }
  const job = jobOf(turn.state);
  const silent = turn.now - Math.max(executor.lastHeard, turn.state.heardFloor);
  const stopped = executor.stoppedSince === null ? 0 : turn.now - Math.max(executor.stoppedSince, turn.state.heardFloor);
  const unanswered = executor.awaiting === null ? 0 : turn.now - Math.max(executor.awaiting.since, turn.state.heardFloor);
  if (pendingExit !== null && executor.lostRank === null) {
    // Whatever ended its program may have ended its executor too: that it is silent would say less than the cause to come.
    if (turn.now >= pendingExit.until) failTask(turn, slot, { kind: 'program', exit: pendingExit.exit });
  } else if (silent >= silenceMs(job)) failTask(turn, slot, { kind: 'silent', ms: silent });
  else if (stopped >= silenceMs(job)) failTask(turn, slot, { kind: 'stopped', ms: stopped });
  else if (executor.awaiting !== null && unanswered >= answerMs(job)) {
    failTask(turn, slot, { kind: 'unanswered', order: executor.awaiting.answer === 'ready' ? 'prepare' : 'start', ms: unanswered });
  }
}

/**
 * Some have lost a peer and no failure has shown itself in the time that a silent peer needs for it: the one that most of them
 * name is to blame. One that names nobody is blamed before one that does.
 */
function blamePeers(turn: Turn): void {
  if (turn.gang?.phase !== 'started' || turn.state.result !== null) return;
  const tasks = memberTasks(turn.state);
  const workers = tasks.filter(({ rank }) => rank !== null).length;
  // Parameter servers are counted on from the workers.
  const number = (task: Task) => task.rank ?? workers + task.index;
  const reporters = tasks.filter((task) => task.executor !== null && task.executor.lostRank !== null);
  const due = reporters.find((task) => turn.now - (task.executor?.lostRank?.since ?? turn.now) >= graceMs(jobOf(turn.state)));
  if (due === undefined) return;
  const votes = (task: Task) => reporters.filter((reporter) => reporter.executor?.lostRank?.rank === number(task)).length;
  const named = tasks
    .filter((task) => task.container !== null && votes(task) > 0)
    .sort((a, b) => votes(b) - votes(a) || Number(reporters.includes(a)) - Number(reporters.includes(b)) || number(a) - number(b));
  // Who is named may be over and gone: then the one that cannot go on is the failure.
  const blamed = named[0] ?? due;
  const exit = blamed.pendingExit?.exit;
  const by = blamed === due ? 'itself' : nameOf(due);
  failTask(turn, blamed.slot, exit === undefined ? { kind: 'blamed', by } : { kind: 'program', exit });
}

/** A task that waits for itself alone: what others hold is not in its way, so only its own container is given up. */
function endLoneRound(turn: Turn, slot: number): void {
  const task = turn.task(slot);
  const { timeoutMs } = jobOf(turn.state).gang;
  if (!restartsAlone(turn.state, task) || turn.state.registration === null || turn.state.result !== null || isOver(task)) return;
  // One that is not asked for yet waits for the others.
  if (isCompanion(jobOf(turn.state), task.role) && task.container === null) return;
  if (task.executor !== null || task.reattachBy !== null || turn.now - Math.max(task.waitingSince, task.notBefore) < timeoutMs) return;
  if (isElastic(task.role) && (!isMember(task) || (task.container === null && isExpendable(turn.state, task)))) {
    goOnWithout(turn, task);
    return;
  }
  const rounds = task.rounds + 1;
  const sentence = describeMissing(turn.state, [task]);
  turn.recordTask('wait-timeout', task, { detail: sentence });
  turn.update(slot, { rounds });
  if (task.container === null && shrinkFor(turn, task)) {
    turn.update(slot, { waitingSince: turn.now, rounds: 0 });
    return;
  }
  if (rounds >= LIMITS.rounds && task.role.tracking !== 'sidecar') {
    decide(turn, {
      state: 'FAILED',
      diagnostics: `${nameOf(task)} was not there within ${seconds(timeoutMs)}, ${rounds} times in a row. ${sentence}`,
    });
  } else if (task.container !== null) failTask(turn, slot, { kind: 'unheard', ms: timeoutMs });
  else turn.update(slot, { waitingSince: turn.now });
}

/** Nobody waits for one that would only be more. One that there is no room for any more makes them fewer. */
function goOnWithout(turn: Turn, task: Task): void {
  const { timeoutMs } = jobOf(turn.state).gang;
  turn.update(task.slot, { waitingSince: turn.now });
  if (task.container !== null) failTask(turn, task.slot, { kind: 'unheard', ms: timeoutMs });
  else if (isMember(task)) newGeneration(turn, { incidentUntil: null, why: `there is no room for ${nameOf(task)}` });
}
