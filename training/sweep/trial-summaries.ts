import { type SummaryOptions, SummaryWriter } from '../summary/summary.ts';
import type { Configuration } from './sweep-space.ts';

/**
 * Opens the summaries of a trial with its row in the HParams tab, which has a column for the metric. End them with `endSession` and
 * `finish`. Discards the summaries of an earlier attempt at the trial.
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
