import { formatDuration, formatMemory } from '../values/units.ts';
import { signalOf } from './program-signal.ts';
import type { HistoryEntry } from './status.ts';
import type { FailureCause, FirstFailure, ProgramEnd, TaskFailure } from './task-failure.ts';

/**
 * Returns the predicate of a sentence about a program, for example `exited with code 3`, `was killed by SIGKILL`, or
 * `exited with code 137 (SIGKILL)` if the signal killed the command of a shell.
 */
export function describeEnd({ code, signal }: ProgramEnd): string {
  return code === null ? `was killed by ${signal ?? 'a signal'}` : `exited with code ${code}${meaningOf(code)}`;
}

function meaningOf(code: number): string {
  switch (code) {
    case 125:
      return ' (it could not be started)';
    case 126:
      return ' (a file of its command cannot be executed: check its mode, or name the interpreter in `command`)';
    case 127:
      return ' (command not found: check the spelling in `command`, that the source contains the file, and that the program is installed on the node or in the runtime)';
    default:
      return signalText(code);
  }
}

/** Returns ` (SIGKILL)` for 137, the exit code of a shell whose command SIGKILL has killed. Returns '' for codes without a signal. */
function signalText(code: number): string {
  const signal = signalOf({ code, signal: null });
  return signal === null ? '' : ` (${signal})`;
}

/** Describes a task failure, for example `its program exited with code 3`. The caller adds the task name. */
export function describeFailure({ cause, node }: TaskFailure, role: string): string {
  const where = node === null ? '' : ` on ${node}`;
  switch (cause.kind) {
    case 'program':
      return `its program${where} ${describeEnd(cause.exit)}${signalOf(cause.exit) === 'SIGKILL' ? killedByKernel(role) : ''}`;
    case 'container':
      return describeContainer(cause, role, node);
    case 'launch':
      return `its container${where} could not be started: ${cause.message}`;
    case 'silent':
      return `its executor${where} sent no heartbeat for ${time(cause.ms)}`;
    case 'stopped':
      return `its program${where} was stopped by a signal for ${time(cause.ms)}`;
    case 'unanswered':
      return `its executor${where} did not respond within ${time(cause.ms)} to the order to ${cause.order} its program`;
    case 'inconsistent':
      return `its executor${where} has lost track of its program`;
    case 'blamed':
      return `its program${where} no longer answers its peers (reported by ${cause.by})`;
    case 'unheard':
      return `its executor${where} did not report within ${time(cause.ms)} of being started`;
    case 'time-limit':
      return `its program${where} ran longer than its time limit of ${time(cause.ms)} (roles.${role}.timeout)`;
    case 'gone':
      return `its container${where} ended while no ApplicationMaster was running`;
    case 'impossible':
      return cause.message;
  }
}

/** Returns true if the text of `describeFailure` contains the node. */
export function namesNode({ cause, node }: TaskFailure): boolean {
  return node !== null && cause.kind !== 'impossible';
}

/**
 * Explains a SIGKILL. YARN does not report who sent the signal, but the sender was probably the kernel, which kills processes that exceed
 * their container's memory limit.
 */
function killedByKernel(role: string, memoryBytes?: number): string {
  const limit =
    memoryBytes === undefined
      ? 'more memory than their container has'
      : `more than the ${formatMemory(memoryBytes / (1 << 20))} of their container`;
  return `. If neither you nor an admin killed it, the kernel did: on nodes that limit memory with cgroups, the kernel kills processes that use ${limit}. If memory was short, raise roles.${role}.resources.memory`;
}

function describeContainer(cause: Extract<FailureCause, { kind: 'container' }>, role: string, node: string | null): string {
  const where = node === null ? '' : ` on ${node}`;
  const why = cause.message === '' ? '' : `: ${cause.message}`;
  const isKilled = signalOf({ code: cause.exitStatus, signal: null }) === 'SIGKILL';
  switch (cause.end) {
    case 'exited':
      return `its container${where} ended with exit status ${cause.exitStatus}${isKilled ? `${why.replace(/\.$/, '')}${killedByKernel(role, cause.memoryBytes)}` : why}`;
    case 'memory-exceeded':
      return `its container${where} was killed for using more than its ${formatMemory(cause.memoryBytes / (1 << 20))} of memory; raise roles.${role}.resources.memory`;
    case 'stopped-by-master':
    case 'released':
      return `its container${where} was stopped from outside${why}`;
    case 'expired':
      return `its container${where} was reclaimed by YARN because it was not started in time${why}`;
    case 'preempted':
      return `its container${where} was preempted for another application`;
    case 'node-lost':
      return `its node${node === null ? '' : ` ${node}`} was lost${why}`;
    case 'disks-failed':
      return `its container${where} ended because the node's disks failed${why}`;
    case 'launch-failed':
      return `its container${where} could not be started${why}`;
  }
}

export function describeFirstFailure(failure: FirstFailure): string {
  return `${failure.role}:${failure.index}: ${describeFailure(failure, failure.role)}`;
}

/** Returns the last stderr lines of the program as a separate paragraph, or an empty string if there are none. */
export function describeStderr({ lines }: TaskFailure): string {
  return lines.length === 0 ? '' : `\nLast lines of its stderr:\n${lines.join('\n')}`;
}

const UNCOUNTED: Readonly<Record<TaskFailure['cost'], string>> = {
  charged: '',
  free: '(not counted: caused by the cluster) ',
  victim: '(not counted: it lost its peers) ',
};

/**
 * Returns the task or role that an event concerns, for example `worker:1`. Returns an empty string for events that concern the whole job.
 */
export function subjectOf({ role = '', index }: HistoryEntry): string {
  return role === '' || index === undefined ? role : `${role}:${index}`;
}

/** Describes an event in one line. If a task has failed, appends the last stderr lines of its program. */
export function describeEntry({ type, role = '', message = '', exit, failure, program, reason, state }: HistoryEntry): string {
  if (failure !== undefined) {
    const uncounted = type === 'failure-corrected' && failure.cost === 'free' ? '(no longer counted) ' : UNCOUNTED[failure.cost];
    return `${uncounted}${describeFailure(failure, role)}${describeStderr(failure)}`;
  }
  if (exit !== undefined) {
    return describeEnd(exit);
  }
  if (state !== undefined) {
    return message === '' ? state : `${state}: ${message}`;
  }
  if (program !== undefined) {
    return `${message}, ${program}`;
  }
  return reason === undefined ? message : `${message}; ${reason}`;
}

/**
 * Returns an event's node, for display next to the text of `describeEntry`. Returns undefined if the text of `describeEntry` contains the
 * node.
 */
export function nodeBesideText({ node, failure }: HistoryEntry): string | undefined {
  return failure !== undefined && namesNode(failure) ? undefined : node;
}

function time(ms: number): string {
  return formatDuration(ms < 10_000 ? ms : 1000 * Math.round(ms / 1000));
}
