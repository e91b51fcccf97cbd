import { messageOf, TonyError } from '../../conf/errors.ts';

/** What looking at one thing came to. */
export interface Finding {
  readonly name: string;
  /** `bad`: jobs do not run like this. `doubtful`: some do not. `unknown`: what it depends on is bad. */
  readonly state: 'good' | 'doubtful' | 'bad' | 'unknown';
  readonly text: string;
  /** The next step for the person; empty when there is nothing to do. */
  readonly remedy: string;
}

/** What a check says of what it has looked at. */
export type Verdict = Omit<Finding, 'name'>;

export const good = (text: string): Verdict => ({ state: 'good', text, remedy: '' });
export const doubtful = (text: string, remedy: string): Verdict => ({ state: 'doubtful', text, remedy });
export const bad = (text: string, remedy: string): Verdict => ({ state: 'bad', text, remedy });

export interface Check {
  readonly name: string;
  /** Names of checks that must not be bad for this one to mean anything. */
  readonly needs: readonly string[];
  readonly look: () => Promise<Verdict>;
}

/** Looks at one after the other, each finding told as soon as it is there. What fails is a finding too. */
export async function* diagnose(checks: readonly Check[]): AsyncGenerator<Finding, void> {
  const failed = new Set<string>();
  for (const { name, needs, look } of checks) {
    const missing = needs.find((need) => failed.has(need));
    if (missing !== undefined) {
      failed.add(name);
      yield { name, state: 'unknown', text: `not looked at: ${missing} comes first`, remedy: '' };
      continue;
    }
    const verdict = await look().catch(
      (error: unknown): Verdict => ({ state: 'bad', text: messageOf(error), remedy: error instanceof TonyError ? error.hint : '' }),
    );
    if (verdict.state === 'bad') failed.add(name);
    yield { name, ...verdict };
  }
}
