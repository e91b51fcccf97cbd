import type { Json } from '../../platform/json-value.ts';
import { type SummaryOptions, SummaryWriter } from './summary.ts';
import type { HyperparameterValue } from './summary-hparams.ts';

/**
 * Opens a trial's summaries. They add a row to the HParams tab, with a column for the metric. Discards summaries from an earlier attempt at
 * the trial. The caller must end the summaries with `endSession` and `finish`.
 */
export function openTrialSummaries(
  options: Omit<SummaryOptions, 'trial'> & { readonly trial: string },
  configuration: Readonly<Record<string, Json>>,
  metric: string,
): SummaryWriter {
  const writer = new SummaryWriter(options);
  writer.resumeFrom(0);
  // The tab shows numbers, strings and booleans.
  const shown = Object.entries(configuration).map(([name, value]) => [name, isShown(value) ? value : JSON.stringify(value)] as const);
  writer.hparams(Object.fromEntries(shown), { metrics: [metric] });
  return writer;
}

function isShown(value: Json): value is HyperparameterValue {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}
