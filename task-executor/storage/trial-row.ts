import { z } from 'zod';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { openTrialSummaries } from '../../training/sweep/trial-summaries.ts';

/** The result of one trial in a sweep, as a Python program sends it. NaN and infinite metrics are strings. */
export const trialRequest = z.object({
  name: z.string().regex(/^trial-\d{5,9}$/),
  configuration: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  metrics: z.record(z.string(), z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity'])])),
  metric: z.string(),
  succeeded: z.boolean(),
});

/**
 * Writes a trial's row for TensorBoard's HParams tab as a separate run. The trial's program may still be writing to its own run, such as
 * `trial-00003`, and TensorBoard stops reading a file as soon as the run contains a newer one.
 */
export async function writeTrialRow(
  storage: Storage,
  summaryDir: string,
  { name, configuration, metrics, metric, succeeded }: z.infer<typeof trialRequest>,
  notice: (message: string) => void,
): Promise<void> {
  const onTrouble = (message: string): void => notice(`${name}: ${message}`);
  const writer = openTrialSummaries({ storage, dir: joinUri(summaryDir, name, 'result'), trial: name, onTrouble }, configuration, metric);
  writer.scalars(Object.fromEntries(Object.entries(metrics).map(([tag, value]) => [tag, Number(value)])), 1);
  writer.endSession(succeeded);
  await writer.finish();
}
