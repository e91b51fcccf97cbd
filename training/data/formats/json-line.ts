/** The largest exact integer has 16 digits. */
const MANY_DIGITS = /\d{16}/;

/** Number of characters of a damaged line that an error shows. */
const MOST_SHOWN = 80;

/**
 * Parses a line of JSON.
 * @throws Error if the line is damaged, or contains an integer that a number does not represent exactly.
 */
export function parseJsonLine(line: string): unknown {
  const value = parsed(line);
  if (MANY_DIGITS.test(line)) {
    refuseLargeIntegers(line);
  }
  return value;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    const found = /[:[,]\s*(-?Infinity|NaN)\b/.exec(line)?.[1];
    throw new Error(
      found === undefined
        ? `the line is not JSON: ${line.length > MOST_SHOWN ? `${line.slice(0, MOST_SHOWN)}...` : line}`
        : `the line is not JSON, which has no ${found}; write null, and replace it in \`map\``,
      { cause: error },
    );
  }
}

function refuseLargeIntegers(line: string): void {
  for (let at = 0; at < line.length; ) {
    if (line[at] === '"') {
      at = endOfString(line, at);
      continue;
    }
    const start = at;
    while (isNumeric(line.charCodeAt(at))) {
      at++;
    }
    const text = line.slice(start, at);
    if (/^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text))) {
      throw new Error(
        `the integer ${text} is outside the range in which a number represents every integer exactly; ` +
          'write it as a string, or read the file with `lines` and parse each line in `map`',
      );
    }
    at += start === at ? 1 : 0;
  }
}

/** Returns the position behind a string's closing quote. */
function endOfString(line: string, start: number): number {
  let at = start + 1;
  while (at < line.length && line[at] !== '"') {
    at += line[at] === '\\' ? 2 : 1;
  }
  return at + 1;
}

/** Digits, signs, the decimal point and the letter of an exponent. */
function isNumeric(code: number): boolean {
  return (code >= 48 && code <= 57) || code === 45 || code === 43 || code === 46 || code === 69 || code === 101;
}
