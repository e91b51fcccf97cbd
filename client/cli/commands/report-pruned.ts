import { apiObject } from '../../../conf/status/api-object.ts';
import { formatBytes } from '../../../conf/values/quantities.ts';
import { type OutputFormat, valueWriter } from '../../output/lines/value-output.ts';
import { printable } from '../../terminal/terminal.ts';

export interface Removal {
  readonly bytes: number;
  /** Error message if the removal failed. Empty after a successful removal and in a dry run. */
  readonly failure: string;
}

export interface PruneReport<Item> {
  readonly output: OutputFormat;
  readonly dryRun: boolean;
  /** Returns an item's fields for `--output json` and `--output yaml`. */
  readonly value: (item: Item) => object;
  /** Returns an item's description for the text output. */
  readonly text: (item: Item) => string;
  readonly count: (items: number) => string;
}

/** Reports each removed item, then the total. Sets the exit code to 1 if a removal failed. */
export async function reportPruned<Item extends Removal>(items: AsyncIterable<Item>, report: PruneReport<Item>): Promise<void> {
  const { output, dryRun, value, text, count } = report;
  const write = output === 'table' ? null : await valueWriter(output);
  let [removed, bytes, failures] = [0, 0, 0];
  for await (const item of items) {
    const { failure } = item;
    if (failure === '') {
      removed++;
      bytes += item.bytes;
    } else {
      failures++;
    }
    if (write !== null) {
      write(apiObject('Removal', { ...value(item), removed: !dryRun && failure === '', message: failure }));
    } else {
      const what = failure === '' ? (dryRun ? 'would remove' : 'removed') : 'cannot remove';
      process.stdout.write(`${printable(`${what} ${text(item)}${failure === '' ? '' : `: ${failure}`}`)}\n`);
    }
  }
  if (write === null) {
    process.stdout.write(`${count(removed)}, ${formatBytes(bytes)}${dryRun ? ' would be removed' : ' removed'}\n`);
  }
  if (failures > 0) {
    process.exitCode = 1;
  }
}
