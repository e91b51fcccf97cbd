import type { Role } from '../../../conf/job.ts';
import type { FailureCause, FailureCost, ProgramEnd, TaskFailure } from '../../../conf/status/task-failure.ts';
import type { ContainerEnd } from '../../../hadoop/yarn/container-exit.ts';
import { unpackingFailure, unusableFile, withoutBoilerplate } from '../../../hadoop/yarn/container-exit.ts';
import type { ProgramExit } from './events.ts';
import { LIMITS } from './job-state.ts';

/** What caused a task to fail. `taskFailure` shortens these strings and removes control characters from them. */
export type Cause =
  | Exclude<FailureCause, { kind: 'program' | 'container' | 'launch' | 'impossible' }>
  | { readonly kind: 'program'; readonly exit: ProgramExit }
  | { readonly kind: 'container'; readonly end: ContainerEnd; readonly exitStatus: number; readonly diagnostics: string }
  | { readonly kind: 'launch'; readonly message: string };

export function taskFailure(cause: Cause, cost: FailureCost, role: Role, node: string | null): TaskFailure {
  return { cause: failureCause(cause, role), cost, node, lines: cause.kind === 'program' ? lastLines(cause.exit.stderrTail) : [] };
}

function failureCause(cause: Cause, role: Role): FailureCause {
  switch (cause.kind) {
    case 'program':
      return { kind: 'program', exit: programEnd(cause.exit) };
    case 'container': {
      const { kind, end, exitStatus, diagnostics } = cause;
      return {
        kind,
        end,
        exitStatus,
        memoryBytes: role.resources.memoryMb * (1 << 20),
        message: unusableFile(diagnostics) ?? containerReason(end, diagnostics),
      };
    }
    case 'launch':
      return { kind: 'launch', message: oneLine(cause.message) };
    default:
      return cause;
  }
}

function containerReason(end: ContainerEnd, diagnostics: string): string {
  const text = oneLine(withoutBoilerplate(diagnostics));
  const unpacking = end === 'launch-failed' ? unpackingFailure(diagnostics) : null;
  return unpacking === null ? text : `${text.replace(/\.$/, '')}. ${unpacking}`;
}

export function programEnd({ code, signal }: ProgramExit): ProgramEnd {
  return code === -1 || signal !== '' ? { code: null, signal: signal === '' ? null : signal } : { code, signal: null };
}

/** Returns the last lines of a program's stderr, without control characters. */
export function lastLines(stderrTail: string): string[] {
  const tail = lastBytes(printable(stderrTail).trimEnd(), LIMITS.stderrBytes);
  return tail === '' ? [] : tail.split('\n');
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

/** Removes ANSI colours and other control characters. The result is safe in XML, JSON and terminals. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the function removes control characters
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
}

/** Returns at most the last `limit` bytes of a text, preferably in whole lines. The last lines usually contain the cause. */
export function lastBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) {
    return text;
  }
  let from = bytes.length - limit;
  // Skip UTF-8 continuation bytes (10xxxxxx) so that the text does not begin with a partial character.
  while (from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) {
    from++;
  }
  const cut = bytes.subarray(from).toString();
  const line = cut.indexOf('\n');
  return `...${line >= 0 && line < cut.length - 1 ? cut.slice(line) : cut}`;
}
