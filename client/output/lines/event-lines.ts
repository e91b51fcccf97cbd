import { describeEntry, nodeBesideText, subjectOf } from '../../../conf/status/event-text.ts';
import type { HistoryEntry } from '../../../conf/status/status.ts';
import { clockTime, fullTime } from '../../terminal/clock.ts';
import { clip, harmless, oneLine, type Style, type Terminal, wrap } from '../../terminal/terminal.ts';
import { padTo, widthOf } from '../../terminal/text-width.ts';

/** Terminal width (columns) below which the output shows times without dates. */
const ROOM_FOR_DATES = 100;
const TASK_WIDTH = 12;
const EVENT_WIDTH = 19;
const MORE_LINES = 3;
const INDENT = '    ';

/** Formats an event as one line with its time, task and text. If a program has failed, its last output lines follow. */
export function eventLines(entry: HistoryEntry, terminal: Terminal): string[] {
  const { at, type, generation, attempt } = entry;
  const node = nodeBesideText(entry);
  const [first = '', ...more] = harmless(describeEntry(entry)).split('\n');
  const parts = [
    `${first}${node === undefined ? '' : ` on ${node}`}`,
    attempt !== undefined && attempt > 1 ? `container ${attempt}` : '',
    generation !== undefined && generation > 1 ? `generation ${generation}` : '',
  ];
  const what = oneLine(parts.filter((part) => part !== '').join(', '));
  const time = terminal.live && terminal.columns < ROOM_FOR_DATES ? clockTime(at) : fullTime(at);
  const head = `${time}  ${padTo(oneLine(subjectOf(entry)), TASK_WIDTH)}  ${padTo(oneLine(type), EVENT_WIDTH)}`;
  const lines = wrapped(head, what, terminal);
  const paint = styleOf(type);
  const [begin = '', ...rest] = paint === null ? lines : lines.map((line) => terminal.paint(paint, line));
  const below = more.filter((line) => line.trim() !== '').map((line) => cut(`${INDENT}${line.replace(/\s/g, ' ')}`, terminal));
  return [begin, ...rest, ...below.map((line) => terminal.paint('dim', line))];
}

/** Wraps the text if it does not fit on one line. In a pipe, lines are not wrapped, so that users can search them. */
function wrapped(head: string, what: string, terminal: Terminal): string[] {
  const whole = `${head}  ${what}`.trimEnd();
  const width = Math.max(20, terminal.columns - 1);
  if (!terminal.live || widthOf(whole) <= width) {
    return [whole];
  }
  return [clip(head.trimEnd(), width), ...wrap(what, width - INDENT.length, MORE_LINES).map((line) => `${INDENT}${line}`)];
}

function cut(line: string, terminal: Terminal): string {
  return terminal.live ? clip(line, Math.max(20, terminal.columns - 1)) : line;
}

function styleOf(event: string): Style | null {
  if (/failed|timeout|peer-lost|given-up/.test(event)) {
    return 'red';
  }
  if (/^(?:job-held|node-lost|preemption-announced|went-without|ask-refused|notice|failure-corrected)$/.test(event)) {
    return 'yellow';
  }
  return event.startsWith('job-') || event.startsWith('generation-') ? 'bold' : null;
}
