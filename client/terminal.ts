import { headOf, widthOf } from './text-width.ts';

/** What an output stream can show. */
export interface Terminal {
  /** May be written to in place. */
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

/** Colours on a terminal only, and not where NO_COLOR is set (no-color.org: any value but the empty one). */
export function terminalOf(
  stream: { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined; readonly rows?: number | undefined },
  environment: NodeJS.ProcessEnv = process.env,
): Terminal {
  const live = stream.isTTY === true && environment.TERM !== 'dumb';
  const coloured = live && !environment.NO_COLOR;
  return {
    live,
    // Read anew each time: windows are resized.
    get columns() {
      return stream.columns ?? 80;
    },
    get rows() {
      return stream.rows ?? 24;
    },
    paint: (style, text) => (coloured && text !== '' ? `\x1b[${CODES[style][0]}m${text}\x1b[${CODES[style][1]}m` : text),
  };
}

// Biome is right that control characters in a pattern are rare; here they are what is looked for.
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const CONTROL = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** Text that comes from elsewhere, made harmless for a terminal: no escape sequences, no control characters but tab and newline. */
export function harmless(text: string): string {
  return text.replace(CONTROL, '');
}

/** Cut to `width` columns, with an ellipsis in place of what is cut. */
export function clip(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  return width <= 1 ? headOf(text, width) : `${headOf(text, width - 1)}…`;
}

/** Broken between words into lines of at most `width` columns; what goes beyond `most` lines is cut. */
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
