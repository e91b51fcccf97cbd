import { formatBytes } from '../../conf/values/quantities.ts';
import { formatMemory } from '../../conf/values/units.ts';
import { type FittedColumn, fittedTable } from '../terminal/fitted-table.ts';
import { type Terminal, wrap } from '../terminal/terminal.ts';
import type { Headroom, JobPlan, PlannedUpload, Span, Verdict } from './job-plan.ts';
import type { SubmitRequest } from './submit-request.ts';

const LINES_OF_A_REASON = 6;
const INDENT = '  ';

/** Formats a plan as a table of the containers, followed by the queue's free resources, the uploads, and the verdict. */
export function planLines(plan: JobPlan, terminal: Terminal): string[] {
  return plan.where === 'local' ? localLines(plan, terminal) : yarnLines(plan, terminal);
}

interface Row {
  readonly role: string;
  readonly tasks: Span;
  readonly ranks: string;
  readonly amounts: Readonly<Record<string, Span>>;
  readonly label: string;
  readonly fitNow: string;
}

function yarnLines(plan: JobPlan, terminal: Terminal): string[] {
  const { containers, total, headroom, notes } = plan;
  const types = Object.keys(total.resources).filter((name) => name === 'memory' || name === 'vcores' || isMore(total.resources[name]));
  const rows: Row[] = containers.map(({ role, instances, ranks, resources, nodeLabel, fitNow }) => ({
    role,
    tasks: instances,
    ranks: ranks ?? '',
    amounts: Object.fromEntries(Object.entries(resources).map(([name, amount]) => [name, { min: amount, max: amount }])),
    label: nodeLabel ?? '',
    fitNow: fitNow === null ? '' : String(fitNow),
  }));
  const all: Row = { role: 'all', tasks: total.containers, ranks: '', amounts: total.resources, label: '', fitNow: '' };
  const column = (title: string, keep: number, cell: (row: Row) => string): FittedColumn<Row> => ({ title, cell, align: 'right', keep });
  const columns: FittedColumn<Row>[] = [
    { title: 'role', cell: ({ role }) => role, least: 8, keep: 1, style: (row) => (row === all ? 'bold' : 'cyan') },
    column('tasks', 5, ({ tasks }) => spanText(tasks, String)),
    { ...column('ranks', 2, ({ ranks }) => ranks), when: () => rows.some(({ ranks }) => ranks !== '') },
    ...types.map((type) => column(type, 4, ({ amounts }) => amountText(type, amounts[type]))),
    { ...column('fit now', 3, ({ fitNow }) => fitNow), when: () => rows.some(({ fitNow }) => fitNow !== '') },
    { title: 'label', cell: ({ label }) => label, least: 8, keep: 2, when: () => rows.some(({ label }) => label !== '') },
  ];
  return [
    ...fittedTable([...rows, all], columns, terminal),
    ...(headroom === null ? [] : wrapped(`queue ${headroom.queue}${roomText(headroom, types)}`, terminal)),
    ...uploadLines(plan, 'upload', 'already on HDFS', terminal),
    ...noteLines(notes, terminal),
    ...verdictLines(plan.verdict, terminal),
  ];
}

function roomText({ free, maximum }: Headroom, types: readonly string[]): string {
  const parts = types.flatMap((name) => {
    const most = maximum[name];
    if (most === undefined) {
      return [];
    }
    const text = name === 'memory' ? formatMemory : String;
    return [`${text(Math.min(free[name] ?? most, most))} of ${text(most)} ${name}`];
  });
  return parts.length === 0 ? ': the ResourceManager does not report its limits' : ` has left: ${parts.join(', ')}`;
}

/** Returns a line such as `upload: 1.5 MB (source 12.3 kB, tony 1.5 MB); already on HDFS: runtime 180.2 MB`. */
function uploadLines({ uploads, uploadBytes }: JobPlan, verb: string, there: string, terminal: Terminal): string[] {
  const missing = uploads.filter((part) => part.missing > 0);
  const present = uploads.filter((part) => part.missing < part.bytes);
  const list = (parts: readonly PlannedUpload[], bytes: (part: PlannedUpload) => number): string =>
    parts.map((part) => `${part.name} ${formatBytes(bytes(part))}`).join(', ');
  const first =
    missing.length === 0 ? `${verb}: nothing` : `${verb}: ${formatBytes(uploadBytes)} (${list(missing, (part) => part.missing)})`;
  const second = present.length === 0 ? '' : `; ${there}: ${list(present, (part) => part.bytes - part.missing)}`;
  return wrapped(`${first}${second}`, terminal);
}

/** Formats a request as `POST URL` and its JSON body. */
export function requestLines({ method, url, body }: SubmitRequest): string[] {
  return [`${method} ${url}`, ...JSON.stringify(body, null, 2).split('\n')];
}

function verdictLines(verdict: Verdict, terminal: Terminal): string[] {
  switch (verdict.type) {
    case 'fits':
      return [terminal.paint('green', 'fits')];
    case 'waits':
      return because('yellow', 'waits because', verdict.reasons, terminal);
    case 'rejected':
      return because('red', 'rejected because', verdict.reasons, terminal);
    case 'impossible':
      return because('red', 'impossible because', verdict.reasons, terminal);
    case 'unknown':
      return [terminal.paint('dim', 'unknown whether the job fits')];
  }
}

function because(style: 'yellow' | 'red', what: string, reasons: readonly string[], terminal: Terminal): string[] {
  const [only] = reasons;
  if (reasons.length === 1 && only !== undefined) {
    return wrapped(`${what} ${lowered(only)}`, terminal).map((line) => terminal.paint(style, line));
  }
  return [terminal.paint(style, what), ...reasons.flatMap((reason) => wrapped(reason, terminal, INDENT))];
}

function lowered(sentence: string): string {
  return sentence.replace(/^(The|Each) /, (word) => word.toLowerCase()).replace(/\.$/, '');
}

function localLines(plan: JobPlan, terminal: Terminal): string[] {
  const width = Math.max(...plan.containers.map(({ role }) => role.length));
  const rankText = (ranks: string | null): string => (ranks === null ? '' : `ranks ${ranks}`);
  const rankWidth = Math.max(...plan.containers.map(({ ranks }) => rankText(ranks).length));
  return [
    'would start on this machine:',
    ...plan.containers.flatMap(({ role, instances, ranks, command }) => {
      const head = `${INDENT}${spanText(instances, String).padStart(4)} ${role.padEnd(width)}  ${rankText(ranks).padEnd(rankWidth)}`;
      return [command === null ? head.trimEnd() : `${head}  ${clipped(command, terminal.columns - 1 - head.length - 2)}`];
    }),
    ...uploadLines(plan, 'copy', 'already copied', terminal),
    ...noteLines(plan.notes, terminal),
  ];
}

function noteLines(notes: readonly string[], terminal: Terminal): string[] {
  return notes.flatMap((note) => wrapped(note, terminal).map((line) => terminal.paint('yellow', line)));
}

function clipped(text: string, width: number): string {
  return wrap(text.replace(/\s+/g, ' ').trim(), Math.max(8, width), 1)[0] ?? '';
}

function wrapped(text: string, terminal: Terminal, indent = ''): string[] {
  return wrap(text, terminal.columns - 1 - indent.length, LINES_OF_A_REASON).map((line) => `${indent}${line}`);
}

function isMore(span: Span | undefined): boolean {
  return span !== undefined && span.max > 0;
}

function amountText(resource: string, span: Span | undefined): string {
  if (!isMore(span) || span === undefined) {
    return '';
  }
  const text = spanText(span, resource === 'memory' ? formatMemory : String);
  // For example, `4 GiB..5 GiB` becomes `4..5 GiB`.
  const [from, to, ...more] = text.split('..').map((end) => end.split(' '));
  return from?.length === 2 && to?.length === 2 && more.length === 0 && from[1] === to[1] ? `${from[0]}..${to.join(' ')}` : text;
}

/** Formats a range, such as `2..4`, or `4` if both ends are equal. */
function spanText({ min, max }: Span, text: (amount: number) => string): string {
  return min === max ? text(min) : `${text(min)}..${text(max)}`;
}
