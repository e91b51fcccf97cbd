// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const STYLES = /\x1b\[[\d;]*m/g;
const PLAIN = /^[\x20-\x7e]*$/;
const NOTHING = /[\p{Mn}\p{Me}\p{Cf}]/u;
/** East Asian wide and fullwidth characters, and emoji: Unicode Standard Annex 11, as terminals draw them. */
const WIDE =
  /[\u1100-\u115f\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u25fd\u25fe\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26aa\u26ab\u26bd\u26be\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757\u2795-\u2797\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f7e0}-\u{1f7eb}\u{1f90c}-\u{1faff}\u{20000}-\u{3fffd}]/u;

/** The number of terminal columns of a line; colour codes take none. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text.replace(STYLES, '')) width += columnsOf(character);
  return width;
}

/** The longest prefix that fits into `width` columns. */
export function headOf(text: string, width: number): string {
  if (PLAIN.test(text)) return text.slice(0, Math.max(0, width));
  let taken = 0;
  let end = 0;
  for (const character of text) {
    taken += columnsOf(character);
    if (taken > width) break;
    end += character.length;
  }
  return text.slice(0, end);
}

/** Pads with spaces, at the end or the beginning, to `width` columns. */
export function padTo(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const blanks = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'left' ? text + blanks : blanks + text;
}

/**
 * Breaks a line between words into lines of at most `width` columns; continuation lines are indented like the first, or by `indent`. A word
 * longer than a line, such as a URL, stays whole so that it can be copied. Colours may continue across line ends.
 */
export function fold(line: string, width: number, indent: string = /^ */.exec(line)?.[0] ?? ''): string[] {
  if (widthOf(line) <= width) return [line];
  const lines: string[] = [];
  let [current = '', ...words] = line.trimStart().split(' ');
  current = `${/^ */.exec(line)?.[0] ?? ''}${current}`;
  const indentWidth = widthOf(indent);
  let currentWidth = widthOf(current);
  for (const word of words) {
    const wordWidth = widthOf(word);
    if (currentWidth + 1 + wordWidth <= width || indentWidth + wordWidth > width) {
      current += ` ${word}`;
      currentWidth += 1 + wordWidth;
    } else if (word !== '') {
      lines.push(current.trimEnd());
      current = `${indent}${word}`;
      currentWidth = indentWidth + wordWidth;
    }
  }
  return [...lines, current];
}

function columnsOf(character: string): 0 | 1 | 2 {
  if (NOTHING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
