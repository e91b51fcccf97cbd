import type { LogLine } from '../../connections/operations/log-reader.ts';
import { clip, harmless, type Style, type Terminal } from '../../terminal/terminal.ts';
import { fold, widthOf } from '../../terminal/text-width.ts';

/** Colours for task names. Red is reserved for errors. */
const COLOURS: readonly Style[] = ['cyan', 'green', 'yellow', 'magenta', 'blue'];
const LONGEST_PREFIX = 32;
const LEAST_ROOM = 20;
const TAB = 8;
/** Characters that stand before a path. */
const PATH_BORDERS = [' ', '"', "'", '(', '[', '=', ',', '\t'];

/**
 * Formats the log lines from several tasks. Each line begins with the task's name. On a terminal, names are coloured and aligned, and long
 * lines wrap to the right of the names.
 */
export class LogLines {
  readonly #prefixed: boolean;
  #width = 0;

  /** @param options.prefixed whether each line starts with the task name */
  constructor({ prefixed }: { readonly prefixed: boolean }) {
    this.#prefixed = prefixed;
  }

  /** Makes the prefix as wide as the longest of these names. */
  expect(tasks: readonly string[]): void {
    this.#width = Math.max(this.#width, ...tasks.map((task) => Math.min(task.length, LONGEST_PREFIX)));
  }

  /** Returns a line with its newline. In a pipe, the text remains unchanged, so that programs can parse it. */
  line({ task: name, containerId, text }: LogLine, terminal: Terminal): string {
    const task = terminal.live ? harmless(name) : name;
    const shown = terminal.live ? shortPaths(visible(text), containerId) : text;
    if (!this.#prefixed) {
      return `${shown}\n`;
    }
    if (!terminal.live) {
      return `${task} | ${shown}\n`;
    }
    this.expect([task]);
    const room = Math.max(LEAST_ROOM, terminal.columns - 1 - Math.max(this.#width, task.length) - ' | '.length);
    // A line that only underlines the one above it is useless if it wraps.
    return (/^ *[~^]+ *$/.test(shown) ? [clip(shown, room)] : fold(shown, room))
      .map((part, at) => `${terminal.paint(colourOf(task), `${(at === 0 ? task : '').padEnd(this.#width)} |`)} ${part}\n`)
      .join('');
  }
}

/** Returns the colour for a task name. Tasks with consecutive indexes have different colours. */
export function colourOf(task: string): Style {
  const [role = '', index = '0'] = task.split(':');
  const sum = [...role].reduce((hash, letter) => (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521, 0);
  return COLOURS[(sum + Number(index)) % COLOURS.length] ?? 'cyan';
}

/** Shortens paths to files in the program's own folder, as in messages about failed programs. */
function shortPaths(text: string, containerId: string): string {
  const parts = text.split(`/${containerId}/program/`);
  return parts
    .map((part, at) => {
      // The name of the next folder is the number of the generation.
      const below = at === 0 ? part : part.replace(/^\d+\//, '');
      return at === parts.length - 1 ? below : below.slice(0, Math.max(...PATH_BORDERS.map((border) => below.lastIndexOf(border))) + 1);
    })
    .join('');
}

/** Removes text that a carriage return overwrites on a terminal. */
function visible(text: string): string {
  const last = harmless(text.slice(text.lastIndexOf('\r') + 1));
  // Replace tabs with spaces, because the prefix would shift the tab stops.
  const parts = last.split('\t');
  return parts.map((part, at) => (at === parts.length - 1 ? part : part + ' '.repeat(TAB - (widthOf(part) % TAB)))).join('');
}
