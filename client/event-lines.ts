import type { HistoryEntry } from '../conf/status.ts';
import { clockTime, fullTime } from './clock.ts';
import { oneLine } from './job-table.ts';
import { clip, harmless, type Style, type Terminal, wrap } from './terminal.ts';
import { padTo, widthOf } from './text-width.ts';

/** Of a narrow terminal: less than this leaves no room for dates. */
const ROOM_FOR_DATES = 100;
const TASK_WIDTH = 12;
const EVENT_WIDTH = 19;
/** A long text of an event goes on in so many more lines. */
const MORE_LINES = 3;
const INDENT = '    ';

/** An event as people read it: when, which task, what; its other lines, such as the last of a program that failed, below. */
export function eventLines(entry: HistoryEntry, terminal: Terminal): string[] {
  const { at, event, role, index, generation, attempt, node, detail = '' } = entry;
  const task = role === undefined ? '' : index === undefined ? role : `${role}:${index}`;
  const [first = '', ...more] = harmless(detail).split('\n');
  const which = [
    node === undefined ? '' : `on ${node.replace(/:\d+$/, '')}`,
    attempt !== undefined && attempt > 1 ? `container ${attempt}` : '',
    generation !== undefined && generation > 1 ? `generation ${generation}` : '',
  ].filter((part) => part !== '');
  const what = oneLine([first, which.join(', ')].filter((part) => part !== '').join('  '));
  const time = terminal.live && terminal.columns < ROOM_FOR_DATES ? clockTime(at) : fullTime(at);
  const head = `${time}  ${padTo(oneLine(task), TASK_WIDTH)}  ${padTo(oneLine(event), EVENT_WIDTH)}`;
  const lines = within(head, what, terminal);
  const paint = styleOf(event);
  const [begin = '', ...rest] = paint === null ? lines : lines.map((line) => terminal.paint(paint, line));
  const below = more.filter((line) => line.trim() !== '').map((line) => cut(`${INDENT}${line.replace(/\s/g, ' ')}`, terminal));
  return [begin, ...rest, ...below.map((line) => terminal.paint('dim', line))];
}

/** In a pipe a line is as long as it is: whoever searches it wants all of it. */
function within(head: string, what: string, terminal: Terminal): string[] {
  const whole = `${head}  ${what}`.trimEnd();
  const width = Math.max(20, terminal.columns - 1);
  if (!terminal.live || widthOf(whole) <= width) return [whole];
  return [clip(head.trimEnd(), width), ...wrap(what, width - INDENT.length, MORE_LINES).map((line) => `${INDENT}${line}`)];
}

function cut(line: string, terminal: Terminal): string {
  return terminal.live ? clip(line, Math.max(20, terminal.columns - 1)) : line;
}

function styleOf(event: string): Style | null {
  if (/failed|timeout|peer-lost|given-up/.test(event)) return 'red';
  if (/^(?:job-held|went-without|ask-refused|notice|failure-corrected)$/.test(event)) return 'yellow';
  return event.startsWith('job-') || event.startsWith('generation-') ? 'bold' : null;
}
