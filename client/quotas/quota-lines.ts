import type { Amounts, JobLimits, Quotas } from '../../conf/quota-schema.ts';
import { describeAmount } from '../../conf/quotas.ts';
import { counted } from '../../conf/values/quantities.ts';
import { formatDuration, formatMemory } from '../../conf/values/units.ts';
import { type FittedColumn, fittedTable } from '../terminal/fitted-table.ts';
import { harmless, type Terminal, wrap } from '../terminal/terminal.ts';
import { type Who, whoText } from './quota-usage-lines.ts';

interface Row {
  readonly who: string;
  readonly what: string;
  readonly text: string;
}

const GAPS = 4;
const LEAST_TEXT = 16;
const MOST_LINES = 8;

/** Returns a table of all limits. Each row contains one type of limit for one user, group, queue or role. */
export function quotaLines(quotas: Quotas, from: string | null, terminal: Terminal): string[] {
  const rows = entriesOf(quotas).flatMap(({ who, limits }) => limitsOf(limits).map((limit) => ({ who, ...limit })));
  if (rows.length === 0) {
    return [from === null ? 'There is no site file, so there are no limits.' : `${from} sets no limits.`];
  }
  const waiting = quotas.over === 'wait' ? 'waits for other jobs to end' : 'fails immediately';
  const about = `set in ${from}; a job that would exceed a total ${waiting}`;
  return [
    ...wrap(harmless(about), terminal.columns - 1, MOST_LINES),
    ...fittedTable(folded(rows, terminal.columns - 1), COLUMNS, terminal),
  ];
}

const COLUMNS: readonly FittedColumn<Row>[] = [
  { title: 'WHO', cell: ({ who }) => who, style: () => 'bold', least: 8, keep: 1 },
  { title: 'LIMIT', cell: ({ what }) => what, least: 5, keep: 2 },
  { title: 'AT MOST', cell: ({ text }) => text, keep: 3 },
];

function folded(rows: readonly Row[], width: number): Row[] {
  const widest = (cell: (row: Row) => string): number => Math.max(...rows.map((row) => cell(row).length));
  const room = Math.max(LEAST_TEXT, width - GAPS - widest(({ who }) => who) - widest(({ what }) => what));
  return rows.flatMap(({ who, what, text }, index) =>
    wrap(text, room, MOST_LINES).map((line, number) => ({
      who: number === 0 && rows[index - 1]?.who !== who ? who : '',
      what: number === 0 ? what : '',
      text: line,
    })),
  );
}

function entriesOf({ roles, users, groups, queues }: Quotas): { readonly who: string; readonly limits: JobLimits }[] {
  const nobody: Who = { user: null, group: null, queue: null, role: null };
  const scopes: [Readonly<Record<string, JobLimits>>, (name: string) => Who][] = [
    [roles, (role) => ({ ...nobody, role })],
    [users, (user) => ({ ...nobody, user })],
    [groups, (group) => ({ ...nobody, group })],
    [queues, (queue) => ({ ...nobody, queue })],
  ];
  return scopes.flatMap(([entries, who]) =>
    Object.entries(entries).flatMap(([name, limits]) => [
      { who: whoText(who(name)), limits },
      ...Object.entries(limits.roles ?? {}).map(([role, ofRole]) => ({ who: whoText({ ...who(name), role }), limits: ofRole })),
    ]),
  );
}

function limitsOf({ instances, task, job, total, timeout, idle, nodeLabels, queues }: JobLimits): Omit<Row, 'who'>[] {
  const amounts = (all: Amounts): string[] =>
    Object.entries(all).flatMap(([name, amount]) => (amount === undefined ? [] : [amountText(name, amount)]));
  const one = [...(instances === undefined ? [] : [amountText('instances', instances)]), ...amounts(job ?? {})];
  const lines: [string, readonly string[]][] = [
    ['each task', amounts(task ?? {})],
    ['one job', one],
    ['all running jobs', amounts(total ?? {})],
    ['run time', timeout === undefined ? [] : [formatDuration(timeout)]],
    ['idle time', idle === undefined ? [] : [formatDuration(idle)]],
    ['node labels', namesOf(nodeLabels)],
    ['queues', namesOf(queues)],
  ];
  return lines.flatMap(([what, texts]) => (texts.length === 0 ? [] : [{ what, text: texts.join(', ') }]));
}

function namesOf(names: readonly string[] | undefined): readonly string[] {
  return names?.length === 0 ? ['none'] : (names ?? []);
}

function amountText(resource: string, amount: number): string {
  if (resource === 'memory') {
    return amount === 0 ? 'no memory' : formatMemory(amount);
  }
  if (resource === 'instances') {
    return counted(amount, 'task');
  }
  return describeAmount(resource, amount);
}
