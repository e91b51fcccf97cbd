import type { Role } from '../../conf/job.ts';
import { type ContainerEnd, missingFile } from '../../hadoop/yarn/container-exit.ts';
import type { ProgramExit } from './events.ts';
import { LIMITS } from './job-state.ts';

/** Why a task failed. */
export type Cause =
  | { readonly kind: 'program'; readonly exit: ProgramExit }
  | { readonly kind: 'container'; readonly end: ContainerEnd; readonly exitStatus: number; readonly diagnostics: string }
  | { readonly kind: 'launch'; readonly message: string }
  | { readonly kind: 'silent'; readonly ms: number }
  | { readonly kind: 'stopped'; readonly ms: number }
  | { readonly kind: 'unanswered'; readonly order: 'prepare' | 'start'; readonly ms: number }
  /** The executor's report contradicts its earlier reports: it has lost track of its program. */
  | { readonly kind: 'inconsistent' }
  | { readonly kind: 'blamed'; readonly by: string }
  /** The executor did not register within a round. */
  | { readonly kind: 'unheard'; readonly ms: number }
  /** A later attempt found neither the container nor its executor. */
  | { readonly kind: 'gone' };

/** Describes the cause as the rest of a sentence that begins with the task's name; the tail of stderr is separate. */
export function describeCause(cause: Cause, role: Role, node: string | null): string {
  const where = node === null ? '' : ` on ${node}`;
  switch (cause.kind) {
    case 'program':
      return `its program${where} ${describeExit(cause.exit)}`;
    case 'container':
      return describeEnd(cause, role, where);
    case 'launch':
      return `its container${where} could not be started: ${oneLine(cause.message)}`;
    case 'silent':
      return `its executor${where} was not heard of for ${seconds(cause.ms)}`;
    case 'stopped':
      return `its program${where} was stopped by a signal for ${seconds(cause.ms)}`;
    case 'unanswered':
      return `its executor${where} did not answer the order to ${cause.order} its program for ${seconds(cause.ms)}`;
    case 'inconsistent':
      return `its executor${where} no longer has the program that it was told to run`;
    case 'blamed':
      return `its program${where} no longer answers its peers (reported by ${cause.by})`;
    case 'unheard':
      return `its executor${where} did not report within ${seconds(cause.ms)} of being started`;
    case 'gone':
      return `its container${where} ended while no ApplicationMaster was there to see it`;
  }
}

function describeEnd(cause: Extract<Cause, { kind: 'container' }>, role: Role, where: string): string {
  const missing = missingFile(cause.diagnostics);
  const why = cause.diagnostics === '' ? '' : `: ${missing ?? oneLine(cause.diagnostics)}`;
  switch (cause.end) {
    case 'exited':
      return `its container${where} ended with exit status ${cause.exitStatus}${why}`;
    case 'memory-exceeded':
      return `its container${where} was killed for using more than its ${describeMb(role.resources.memoryMb)} of memory; raise roles.${role.name}.resources.memory`;
    case 'stopped-by-master':
    case 'released':
      return `its container${where} was stopped from outside${why}`;
    case 'expired':
      return `its container${where} was taken back because it was not started in time${why}`;
    case 'preempted':
      return `its container${where} was preempted for another application`;
    case 'node-lost':
      return `its node${where} was lost${why}`;
    case 'disks-failed':
      return `its container${where} was ended because the node's disks failed${why}`;
    case 'launch-failed':
      return `its container${where} could not be started${why}`;
  }
}

export function describeExit(exit: ProgramExit): string {
  return exit.code === -1 || exit.signal !== ''
    ? `was killed by ${exit.signal === '' ? 'a signal' : exit.signal}`
    : `exited with code ${exit.code}${meaningOf(exit.code)}`;
}

/** The meaning of exit codes that the shell itself returns. */
function meaningOf(code: number): string {
  switch (code) {
    case 126:
      return ' (a file of its command cannot be executed: check its mode, or name the interpreter in `command`)';
    case 127:
      return ' (command not found: check the spelling in `command`, that the source has the file, and that the node or the runtime has the program)';
    default:
      return '';
  }
}

/** The last lines of a failed program's stderr as a separate paragraph; empty if there are none. */
export function describeStderr(cause: Cause): string {
  if (cause.kind !== 'program') return '';
  const tail = lastBytes(printable(cause.exit.stderrTail).trimEnd(), LIMITS.stderrBytes);
  return tail === '' ? '' : `\nLast lines of its stderr:\n${tail}`;
}

export function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}

export function describeMb(mb: number): string {
  return mb >= 1024 && mb % 512 === 0 ? `${mb / 1024} GiB` : `${mb} MiB`;
}

export function oneLine(text: string, limit: number = LIMITS.textBytes): string {
  const line = printable(text).replace(/\s+/g, ' ').trim();
  return line.length <= limit ? line : `${line.slice(0, limit)}...`;
}

/** Removes ANSI colours and other control characters, so that the text is safe in XML, JSON and terminals. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is to go
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
}

/** Returns the last `limit` bytes of a text, in whole lines if possible: the last lines contain the cause. */
export function lastBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return text;
  let from = bytes.length - limit;
  // Do not cut inside a character: UTF-8 continuation bytes are 10xxxxxx.
  while (from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from++;
  const cut = bytes.subarray(from).toString();
  const line = cut.indexOf('\n');
  return `...${line >= 0 && line < cut.length - 1 ? cut.slice(line) : cut}`;
}
