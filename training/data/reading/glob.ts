/**
 * The characters with a special meaning in Hadoop's name patterns: `*` matches any characters, `?` one character, `[ab0-9]` one of these
 * characters, `[^a]` any other character, and `{a,b}` either string. A backslash escapes the next character.
 */
const SPECIAL = /[*?[{\\]/;

export function isPattern(name: string): boolean {
  return SPECIAL.test(name);
}

/** Returns a function that matches a name without slashes. A hidden name only matches a pattern that begins with a dot or an underscore. */
export function matcherOf(pattern: string): (name: string) => boolean {
  const expression = new RegExp(`^${expressionOf(pattern)}$`, 's');
  const seesHidden = isHidden(pattern);
  return (name) => (seesHidden || !isHidden(name)) && expression.test(name);
}

/** Returns true if Hadoop hides the name, for example `_SUCCESS` or `.part-0.crc`. */
export function isHidden(name: string): boolean {
  return name.startsWith('.') || name.startsWith('_');
}

function expressionOf(pattern: string): string {
  let result = '';
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at] as string;
    if (character === '\\' && at + 1 < pattern.length) {
      result += escaped(pattern[++at] as string);
    } else if (character === '*') {
      result += '.*';
    } else if (character === '?') {
      result += '.';
    } else if (character === '[') {
      const end = pattern.indexOf(']', at + 2);
      if (end === -1) {
        result += '\\[';
        continue;
      }
      const inside = pattern.slice(at + 1, end);
      const isNegated = /^[\^!]/.test(inside);
      result += `[${isNegated ? '^' : ''}${inside.slice(isNegated ? 1 : 0).replace(/[\\\]^[]/g, '\\$&')}]`;
      at = end;
    } else if (character === '{' && pattern.includes('}', at)) {
      result += '(?:';
      depth++;
    } else if (character === ',' && depth > 0) {
      result += '|';
    } else if (character === '}' && depth > 0) {
      result += ')';
      depth--;
    } else {
      result += escaped(character);
    }
  }
  return result;
}

function escaped(character: string): string {
  return character.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
