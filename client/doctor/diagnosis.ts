import { messageOf, TonyError } from '../../platform/errors.ts';

/** The result of one check. */
export interface Finding {
  readonly name: string;
  /** `bad`: jobs cannot run. `doubtful`: some jobs cannot. `unknown`: a check that this one depends on is bad. */
  readonly state: 'good' | 'doubtful' | 'bad' | 'unknown';
  readonly text: string;
  /** What the user should do next; empty if nothing is needed. */
  readonly remedy: string;
}

/** The outcome of a check, without its name. */
export type Verdict = Omit<Finding, 'name'>;

export const good = (text: string): Verdict => ({ state: 'good', text, remedy: '' });
export const doubtful = (text: string, remedy: string): Verdict => ({ state: 'doubtful', text, remedy });
export const bad = (text: string, remedy: string): Verdict => ({ state: 'bad', text, remedy });

export interface Check {
  readonly name: string;
  /** Names of the checks that this check depends on: if one of them is bad, this check does not run. */
  readonly needs: readonly string[];
  readonly look: () => Promise<Verdict>;
}

/** Runs the checks in order and yields each finding as soon as it is available. If a check throws, yields a bad finding. */
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
      (error: unknown): Verdict => ({ state: 'bad', text: messageOf(error), remedy: error instanceof TonyError ? error.hint : '' }),
    );
    if (verdict.state === 'bad') {
      failed.add(name);
    }
    yield { name, ...verdict };
  }
}
