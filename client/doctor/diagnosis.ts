import { messageOf, TonyError } from '../../platform/errors.ts';

export interface Finding {
  readonly name: string;
  /**
   * Result of the check. `bad` means that no job can run, and `doubtful` that some jobs cannot run. `unknown` means that the check was
   * skipped, because a check in `needs` failed.
   */
  readonly state: 'good' | 'doubtful' | 'bad' | 'unknown';
  readonly text: string;
  /** Next step for the user, or '' if none is needed. */
  readonly remedy: string;
}

export type CheckResult = Omit<Finding, 'name'>;

export const good = (text: string): CheckResult => ({ state: 'good', text, remedy: '' });
export const doubtful = (text: string, remedy: string): CheckResult => ({ state: 'doubtful', text, remedy });
export const bad = (text: string, remedy: string): CheckResult => ({ state: 'bad', text, remedy });

export interface Check {
  readonly name: string;
  /** Names of other checks on which this check depends. If one of them has a bad finding, this check is skipped. */
  readonly needs: readonly string[];
  readonly look: () => Promise<CheckResult>;
}

/** Runs the checks one after the other, and yields each finding immediately. A check that throws an error yields a bad finding. */
export async function* diagnose(checks: readonly Check[]): AsyncGenerator<Finding, void> {
  const failed = new Set<string>();
  for (const { name, needs, look } of checks) {
    const missing = needs.find((need) => failed.has(need));
    if (missing !== undefined) {
      failed.add(name);
      yield { name, state: 'unknown', text: `not checked: it requires ${missing}`, remedy: '' };
      continue;
    }
    const verdict = await look().catch(
      (error: unknown): CheckResult => ({ state: 'bad', text: messageOf(error), remedy: error instanceof TonyError ? error.hint : '' }),
    );
    if (verdict.state === 'bad') {
      failed.add(name);
    }
    yield { name, ...verdict };
  }
}
