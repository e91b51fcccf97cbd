import { type SummaryOptions, SummaryWriter } from '../summary/summary.ts';
import type { Configuration } from './sweep-space.ts';

/**
 * Opens a trial's summaries. They add a row to the HParams tab, with a column for the metric. Discards summaries from an earlier attempt at
 * the trial. The caller must end the summaries with `endSession` and `finish`.
 */
export function openTrialSummaries(
  options: Omit<SummaryOptions, 'trial'> & { readonly trial: string },
  configuration: Configuration,
  metric: string,
): SummaryWriter {
  const writer = new SummaryWriter(options);
  writer.resumeFrom(0);
  writer.hparams(configuration, { metrics: [metric] });
  return writer;
}
