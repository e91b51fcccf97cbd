const PREFIX = 'stopped early at step';

/** Describes training that ended early. YARN keeps this text as the application's diagnostics. */
export function describeEarlyEnd(step: number, reason: string): string {
  return `${PREFIX} ${step}: ${reason}`;
}

/**
 * Finds the text of `describeEarlyEnd` in an application's diagnostics, or returns an empty string. YARN stores only text for an ended
 * application, and may add its own messages before ours, for example about a recovery.
 */
export function earlyEndIn(diagnostics: string): string {
  return new RegExp(`${PREFIX} \\d+: .*`).exec(diagnostics)?.[0].trim() ?? '';
}
