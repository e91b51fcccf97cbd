import { CONTROL_CHARACTERS, ESCAPE_SEQUENCES } from '../../platform/text/control-characters.ts';
import { headOf, widthOf } from './text-width.ts';

export interface Terminal {
  /** Whether the output can overwrite lines, as a terminal can. */
  readonly live: boolean;
  readonly columns: number;
  readonly rows: number;
  paint(style: Style, text: string): string;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan';

const CODES: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
};

/** Returns the capabilities of a stream. Disables colours if the NO_COLOR environment variable is not empty (see no-color.org). */
export function terminalOf(
  stream: { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined; readonly rows?: number | undefined },
  environment: NodeJS.ProcessEnv = process.env,
): Terminal {
  const live = stream.isTTY === true && environment.TERM !== 'dumb';
  const coloured = live && !environment.NO_COLOR;
  return {
    live,
    // Read the size on each access, because the user can resize the window.
    get columns() {
      return stream.columns ?? 80;
    },
    get rows() {
      return stream.rows ?? 24;
    },
    paint: (style, text) => (coloured && text !== '' ? `\x1b[${CODES[style][0]}m${text}\x1b[${CODES[style][1]}m` : text),
  };
}

const CONTROL = new RegExp(`${ESCAPE_SEQUENCES.source}|${CONTROL_CHARACTERS.source}`, 'g');
const OWN_STYLES: ReadonlySet<string> = new Set(
  Object.values(CODES)
    .flat()
    .map((code) => `\x1b[${code}m`),
);

/**
 * Removes characters that are unsafe for a terminal: escape sequences, control characters except tab and newline, and characters that
 * change the direction of text. Must be applied to all text that tony-ts does not generate itself.
 */
export function harmless(text: string): string {
  return text.replace(CONTROL, '');
}

/** Like `harmless`, and puts the text on one line. For text that stands on a line with a label, such as a path. */
export function oneLine(text: string): string {
  return harmless(text).replace(/\s+/g, ' ').trim();
}

/**
 * Like `harmless`, and splits the text into lines. Indents all lines but the first, so that no part of a text that another user wrote can
 * look like a separate line of output.
 */
export function indentedLines(text: string): string[] {
  const [first = '', ...more] = harmless(text).split('\n');
  return [first, ...more.map((line) => (line === '' || /^\s/.test(line) ? line : `  ${line}`))];
}

/** Like `harmless`, but keeps the styles that `paint` adds. All commands pass their text output through this function. */
export function printable(text: string): string {
  return text.replace(CONTROL, (found) => (OWN_STYLES.has(found) ? found : ''));
}

/** Shortens a string to `width` columns, and marks the shortened end with an ellipsis. */
export function clip(text: string, width: number): string {
  if (widthOf(text) <= width) {
    return text;
  }
  return width <= 1 ? headOf(text, width) : `${headOf(text, width - 1)}…`;
}

/** Wraps a text between words. Returns at most `most` lines of at most `width` columns. If the text is longer, shortens the last line. */
export function wrap(text: string, width: number, most: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (widthOf(rest) > width && lines.length < most - 1) {
    const head = headOf(rest, width);
    const space = rest[head.length] === ' ' ? head.length : head.lastIndexOf(' ');
    const end = space > 0 ? space : Math.max(1, head.length);
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return rest === '' ? lines : [...lines, clip(rest, width)];
}
