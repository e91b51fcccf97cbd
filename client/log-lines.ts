import type { LogLine } from './log-reader.ts';
import { harmless, type Style, type Terminal } from './terminal.ts';
import { fold, widthOf } from './text-width.ts';

/** Red is for what went wrong. */
const COLOURS: readonly Style[] = ['cyan', 'green', 'yellow', 'magenta', 'blue'];
const LONGEST_PREFIX = 32;
const LEAST_ROOM = 20;
const TAB = 8;

/**
 * Lines of several tasks below each other: each begins with its task's name, on a terminal in the task's colour and as wide as the others; long
 * lines are broken beside it.
 */
export class LogLines {
  readonly #prefixed: boolean;
  #width = 0;

  /** `prefixed`: not where all lines are of one task. */
  constructor({ prefixed }: { readonly prefixed: boolean }) {
    this.#prefixed = prefixed;
  }

  /** The tasks whose lines may come. */
  expect(tasks: readonly string[]): void {
    this.#width = Math.max(this.#width, ...tasks.map((task) => Math.min(task.length, LONGEST_PREFIX)));
  }

  /** With its newline. A pipe gets the text as it was written, so that programs can read it. */
  line({ task: name, text }: LogLine, terminal: Terminal): string {
    const task = terminal.live ? harmless(name) : name;
    const shown = terminal.live ? visible(text) : text;
    if (!this.#prefixed) return `${shown}\n`;
    if (!terminal.live) return `${task} | ${shown}\n`;
    this.expect([task]);
    const room = Math.max(LEAST_ROOM, terminal.columns - 1 - Math.max(this.#width, task.length) - ' | '.length);
    return fold(shown, room)
      .map((part, at) => `${terminal.paint(colourOf(task), `${(at === 0 ? task : '').padEnd(this.#width)} |`)} ${part}\n`)
      .join('');
  }
}

/** The same for a task at each call; neighbours of a role differ. */
export function colourOf(task: string): Style {
  const [role = '', index = '0'] = task.split(':');
  const sum = [...role].reduce((hash, letter) => (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521, 0);
  return COLOURS[(sum + Number(index)) % COLOURS.length] ?? 'cyan';
}

/** What a terminal would show of the line in the end: progress that is written over itself by carriage returns is its last state. */
function visible(text: string): string {
  const last = harmless(text.slice(text.lastIndexOf('\r') + 1));
  // Where a terminal's tabs end depends on what stands before the text.
  const parts = last.split('\t');
  return parts.map((part, at) => (at === parts.length - 1 ? part : part + ' '.repeat(TAB - (widthOf(part) % TAB)))).join('');
}
