import type { ProgramEnd } from './task-failure.ts';

/** Names of Linux's signals, by number. Pages use this table in browsers, which have no `os.constants`. */
const SIGNALS: readonly string[] = [
  ...['', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGKILL', 'SIGUSR1', 'SIGSEGV', 'SIGUSR2'],
  ...['SIGPIPE', 'SIGALRM', 'SIGTERM', 'SIGSTKFLT', 'SIGCHLD', 'SIGCONT', 'SIGSTOP', 'SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGURG', 'SIGXCPU'],
  ...['SIGXFSZ', 'SIGVTALRM', 'SIGPROF', 'SIGWINCH', 'SIGIO', 'SIGPWR', 'SIGSYS'],
];
/** Highest signal number. The real-time signals 32 to 64 have no names. */
const HIGHEST = 64;
/** A shell exits with this code plus the signal's number if a signal killed its command. */
const SHELL_SIGNAL = 128;

/**
 * Returns true if a signal ended the program, or the command that its shell ran. In the latter case, the shell itself exits, with code
 * 128 + n for signal n.
 */
export function isSignalled({ code }: ProgramEnd): boolean {
  return code === null || (code > SHELL_SIGNAL && code <= SHELL_SIGNAL + HIGHEST);
}

/** Returns the name of the signal that ended the program or its shell's command. Null if there was none, or if it has no known name. */
export function signalOf({ code, signal }: ProgramEnd): string | null {
  return code === null ? signal : SIGNALS[code - SHELL_SIGNAL] || null;
}

/** Returns the exit code of the program, or the one of a shell that ran it: 128 + n after signal n. Null if the signal is unknown. */
export function exitCodeOf({ code, signal }: ProgramEnd): number | null {
  const number = signal === null ? -1 : SIGNALS.indexOf(signal);
  return code ?? (number > 0 ? SHELL_SIGNAL + number : null);
}
