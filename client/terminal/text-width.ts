import stringWidth from 'string-width';

/** Splits text into graphemes. A terminal draws a grapheme, such as a letter with its accents or a composed emoji, as one unit. */
const GRAPHEMES = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** Returns the number of terminal columns that a line occupies. Colour codes occupy none. */
export function widthOf(text: string): number {
  return stringWidth(text);
}

/** Returns the longest prefix that fits into `width` columns. */
export function headOf(text: string, width: number): string {
  let taken = 0;
  for (const { segment, index } of GRAPHEMES.segment(text)) {
    taken += stringWidth(segment);
    if (taken > width) {
      return text.slice(0, index);
    }
  }
  return text;
}

/** Pads a string to `width` columns with spaces. */
export function padTo(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const blanks = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'left' ? text + blanks : blanks + text;
}

/**
 * Wraps a line between words into lines of at most `width` columns. Continuation lines begin with `indent`, which defaults to the
 * indentation of the first line. Does not break long words such as URLs, so that users can copy them. A colour may continue on the next
 * line.
 */
export function fold(line: string, width: number, indent: string = /^ */.exec(line)?.[0] ?? ''): string[] {
  if (widthOf(line) <= width) {
    return [line];
  }
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
