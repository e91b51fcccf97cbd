import { describeHolders } from '../../conf/quota-order.ts';
import { describeAmount } from '../../conf/quotas.ts';
import { formatMemory } from '../../conf/values/units.ts';
import { type FittedColumn, fittedTable } from '../terminal/fitted-table.ts';
import { harmless, type Style, type Terminal, wrap } from '../terminal/terminal.ts';
import type { QuotaSum } from './quota-sums.ts';
import type { QuotaUsage } from './quota-usage.ts';

/** If more than this fraction of a limit is used, the next job will probably have to wait. */
const NEARLY_FULL = 0.9;
const INDENT = '  ';
const MOST_LINES = 8;

/** Returns a table with one row per total, followed by the waiting jobs and the totals that these jobs would exceed. */
export function quotaUsageLines({ from, over, totals, waiting, undeclared }: QuotaUsage, terminal: Terminal): string[] {
  if (totals.length === 0) {
    return [from === null ? 'There is no site file, so there are no totals.' : `${from} sets no matching totals.`];
  }
  const notes = [
    ...waiting.map(({ id, user, shortages }) => {
      const each = shortages.map(({ path, resource, limit, used, asked, ...holding }) => {
        const alone = `${path} is ${describeAmount(resource, limit)}; the job requests ${describeAmount(resource, asked)}`;
        if (holding.holderCount === 0) {
          return asked > limit ? `${alone}, so it can never start` : alone;
        }
        return `${alone}, and ${describeHolders(holding, ['holds or requests', 'hold or request'])} ${describeAmount(resource, used)}`;
      });
      return { style: 'yellow' as const, text: `${id} of ${user} waits: ${each.join('; ')}.` };
    }),
    ...undeclared.map(({ id, user, beyond }) => {
      const more = Object.entries(beyond).map(([resource, amount]) => describeAmount(resource, amount ?? 0));
      return {
        style: 'red' as const,
        text: `${id} of ${user} holds ${more.join(', ')} more than its tags declare; the excess counts against every role.`,
      };
    }),
  ];
  const about = `set in ${from}; a job that would exceed a total ${over === 'wait' ? 'waits' : 'fails immediately'}`;
  return [
    ...wrap(harmless(about), terminal.columns - 1, MOST_LINES),
    ...fittedTable(totals, COLUMNS, terminal),
    ...notes.flatMap(({ style, text }) => indented(text, terminal.columns - 1).map((line) => terminal.paint(style, line))),
  ];
}

function indented(text: string, width: number): string[] {
  const [first = '', ...rest] = wrap(harmless(text), width - INDENT.length, MOST_LINES);
  return [first, ...rest.map((line) => `${INDENT}${line}`)];
}

const COLUMNS: readonly FittedColumn<QuotaSum>[] = [
  { title: 'WHO', cell: whoText, least: 8, keep: 1 },
  { title: 'OF', cell: ({ resource }) => resource, keep: 7 },
  { title: 'USED', cell: ({ resource, used }) => amountText(resource, used), align: 'right', style: fullness, keep: 6 },
  { title: 'LIMIT', cell: ({ resource, limit }) => amountText(resource, limit), align: 'right', keep: 5 },
  {
    title: 'FULL',
    cell: ({ used, limit }) => (limit === 0 ? '-' : `${Math.floor((100 * used) / limit)} %`),
    align: 'right',
    style: fullness,
    keep: 4,
  },
  { title: 'JOBS', cell: ({ jobs }) => String(jobs.length), align: 'right', keep: 2 },
  {
    title: 'WAITING',
    cell: ({ waiting }) => (waiting.length === 0 ? '-' : String(waiting.length)),
    align: 'right',
    style: ({ waiting }) => (waiting.length === 0 ? 'dim' : 'yellow'),
    keep: 3,
  },
];

/** Subject of a limit: a user, a group, a queue, a role, or a role of one user, group or queue. */
export type Who = Pick<QuotaSum, 'user' | 'group' | 'queue' | 'role'>;

/** Formats a subject, such as `queue research, role worker` or `every other user`. */
export function whoText({ user, group, queue, role }: Who): string {
  const parts = Object.entries({ user, group, queue, role }).flatMap(([kind, name]) => {
    if (name === null) {
      return [];
    }
    return [name === '*' ? `every other ${kind}` : `${kind} ${name}`];
  });
  return parts.join(', ');
}

function amountText(resource: string, amount: number): string {
  return resource === 'memory' && amount > 0 ? formatMemory(amount) : String(amount);
}

function fullness({ used, limit }: QuotaSum): Style {
  if (used >= limit) {
    return 'red';
  }
  return used >= NEARLY_FULL * limit ? 'yellow' : 'green';
}
