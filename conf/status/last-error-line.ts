/**
 * Returns the last line that a Python program has written to stderr, which contains the class and the message of the error that ended it. Omits
 * the rank that begins the lines of tasks with several processes, and the lines that the executor adds about such processes.
 */
export function lastErrorLine(lines: readonly string[]): string {
  const last = lines.findLast((line) => !/failed with (?:exit code|SIG)/.test(line)) ?? '';
  return last.replace(/^\[rank \d+\] /, '');
}
