import { SPLITS_FORGOTTEN, SPLITS_JOIN, SPLITS_NEXT } from '../service-names.ts';
import { Services } from '../services.ts';
import type { SplitList } from './read-context.ts';
import type { SplitQuestion } from './split-giver.ts';
import type { Json } from './stream.ts';

/** How often this process has begun to claim the splits of a dataset. */
const beginnings = new Map<string, number>();

/**
 * Numbers of splits, each for one of the tasks of this role that ask. One counts as finished when the next one is asked for; those that a task
 * has not finished when it dies are given to others, and nobody hears of the end before all are finished. All of them when there is no job.
 */
export async function* claimSplits({ fingerprint, splits }: SplitList, signal: AbortSignal): AsyncGenerator<number, void> {
  const services = Services.ofTask();
  if (services === null) {
    yield* splits.keys();
    return;
  }
  const reading = beginnings.get(fingerprint) ?? 0;
  beginnings.set(fingerprint, reading + 1);
  const question = { kind: 'workers', fingerprint, splits: splits.length, passes: [], reading, share: { index: 0, count: 1 } } as const;
  const ask = async (service: string, more: Partial<SplitQuestion>): Promise<Json> => {
    return (await services.ask(service, { ...question, ...more } as unknown as Json, signal)).answer;
  };
  const log: number[] = [];
  await ask(SPLITS_JOIN, { log });
  for (;;) {
    const answer = await ask(SPLITS_NEXT, { at: log.length, done: log });
    if (answer === 'over') return;
    if (answer === SPLITS_FORGOTTEN) await ask(SPLITS_JOIN, { log });
    else if (answer !== 'wait') {
      const { split } = answer as { split: number };
      log.push(split);
      yield split;
    }
  }
}
