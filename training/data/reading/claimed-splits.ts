import { SPLITS_FORGOTTEN, SPLITS_JOIN, SPLITS_NEXT } from '../../../contract/services/service-names.ts';
import { Services } from '../../../contract/services/services.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { SplitRequest } from './split-assigner.ts';

/** A list of items, and a text that identifies it. All tasks of the role have the same list. */
interface ClaimedList {
  readonly fingerprint: string;
  readonly splits: readonly unknown[];
}

const claimsStartedByFingerprint = new Map<string, number>();

/**
 * Yields the numbers of the splits that this task must process. Each split goes to one task of the role. Requesting the next split marks
 * the current one as finished. Splits left unfinished by a failed task go to other tasks. Ends when all splits are finished. Outside a job,
 * yields all splits.
 */
export async function* claimSplits({ fingerprint, splits }: ClaimedList, signal: AbortSignal): AsyncGenerator<number, void> {
  const services = Services.ofTask();
  if (services === null) {
    yield* splits.keys();
    return;
  }
  const reading = claimsStartedByFingerprint.get(fingerprint) ?? 0;
  claimsStartedByFingerprint.set(fingerprint, reading + 1);
  const request = { kind: 'workers', fingerprint, splits: splits.length, passes: [], reading, share: { index: 0, count: 1 } } as const;
  const ask = async (service: string, more: Pick<SplitRequest, 'log'> | Required<Pick<SplitRequest, 'at' | 'done'>>): Promise<Json> => {
    return (await services.ask(service, { ...request, ...more }, signal)).answer;
  };
  const log: number[] = [];
  await ask(SPLITS_JOIN, { log });
  for (;;) {
    const answer = await ask(SPLITS_NEXT, { at: log.length, done: log });
    if (answer === 'over') {
      return;
    }
    if (answer === SPLITS_FORGOTTEN) {
      await ask(SPLITS_JOIN, { log });
    } else if (answer !== 'wait') {
      const { split } = answer as { split: number };
      log.push(split);
      yield split;
    }
  }
}
