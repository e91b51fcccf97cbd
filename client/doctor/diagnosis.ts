import { messageOf, TonyError } from '../../platform/errors.ts';

export interface Finding {
  readonly name: string;
  /**
   * Result of the check. `error` means that no job can run, and `warning` that some jobs cannot run. `skipped` means that a check in `needs`
   * failed.
   */
  readonly state: 'ok' | 'warning' | 'error' | 'skipped';
  readonly message: string;
  /** Next step for the user, or '' if none is needed. */
  readonly hint: string;
}

export type CheckResult = Omit<Finding, 'name'>;

export const ok = (message: string): CheckResult => ({ state: 'ok', message, hint: '' });
export const warn = (message: string, hint: string): CheckResult => ({ state: 'warning', message, hint });
export const fail = (message: string, hint: string): CheckResult => ({ state: 'error', message, hint });

export interface Check {
  readonly name: string;
  /** Names of other checks on which this check depends. If one of them has found an error, this check is skipped. */
  readonly needs: readonly string[];
  readonly look: () => Promise<CheckResult>;
}

/** Runs the checks one after the other, and yields each finding immediately. A check that throws an error yields an error. */
export async function* diagnose(checks: readonly Check[]): AsyncGenerator<Finding, void> {
  const failed = new Set<string>();
  for (const { name, needs, look } of checks) {
    const missing = needs.find((need) => failed.has(need));
    if (missing !== undefined) {
      failed.add(name);
      yield { name, state: 'skipped', message: `not checked: it requires ${missing}`, hint: '' };
      continue;
    }
    const verdict = await look().catch(
      (error: unknown): CheckResult => ({ state: 'error', message: messageOf(error), hint: error instanceof TonyError ? error.hint : '' }),
    );
    if (verdict.state === 'error') {
      failed.add(name);
    }
    yield { name, ...verdict };
  }
}
