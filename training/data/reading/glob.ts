import { withoutEnd } from '../../../platform/text/without-end.ts';
import { joinUri } from '../../../storage/uri.ts';

/**
 * The characters with a special meaning in Hadoop's name patterns: `*` matches any characters, `?` one character, `[ab0-9]` one of these
 * characters, `[^a]` any other character, and `{a,b}` either string. A backslash escapes the next character.
 */
const SPECIAL = /[*?[{\\]/;

/** The characters with a special meaning in a pattern, percent-encoded. In a `file://` URI, an encoded character is an ordinary one. */
const ENCODED = /%(?:2A|2C|3F|5B|5C|5D|5E|7B|7D)/gi;

/** Appends a pattern to the URI of a folder. As in `joinUri`, a `file://` URI is percent-encoded, except for the special characters. */
export function patternUri(folder: string, pattern: string): string {
  if (!/^file:/i.test(folder)) {
    return joinUri(folder, pattern);
  }
  const names = pattern.split('/').filter((name) => name !== '');
  const encoded = names.map((name) => encodeURIComponent(name).replace(ENCODED, decodeURIComponent));
  return [withoutEnd(folder, '/'), ...encoded].join('/');
}

/** Returns a name in a pattern URI of `file://` without percent-encoding. Encoded special characters become escaped ones. */
export function withoutEncoding(name: string): string {
  try {
    return decodeURIComponent(name.replace(ENCODED, '\\$&'));
  } catch {
    return name;
  }
}

/**
 * Replaces each group in braces that contains a slash, such as `{a,b/c}`, by one pattern for each alternative. Hadoop does the same.
 */
export function expandSlashes(pattern: string): string[] {
  for (const [from, to, parts] of groupsIn(pattern)) {
    if (parts.some((part) => part.includes('/'))) {
      return parts.flatMap((part) => expandSlashes(pattern.slice(0, from) + part + pattern.slice(to)));
    }
  }
  return [pattern];
}

/** Yields the groups in braces, outer ones first: where they begin and end, and their alternatives. */
function* groupsIn(pattern: string): Generator<readonly [from: number, to: number, parts: readonly string[]]> {
  for (let from = 0; from < pattern.length; from++) {
    if (pattern[from] === '\\') {
      from++;
    } else if (pattern[from] === '{') {
      const group = groupAt(pattern, from);
      if (group !== null) {
        yield [from, ...group];
      }
    }
  }
}

function groupAt(pattern: string, from: number): readonly [to: number, parts: readonly string[]] | null {
  const parts: string[] = [];
  let depth = 0;
  let start = from + 1;
  for (let at = from; at < pattern.length; at++) {
    const character = pattern[at];
    if (character === '\\') {
      at++;
    } else if (character === '{') {
      depth++;
    } else if (depth === 1 && (character === ',' || character === '}')) {
      parts.push(pattern.slice(start, at));
      start = at + 1;
      if (character === '}') {
        return [at + 1, parts];
      }
    } else if (character === '}') {
      depth--;
    }
  }
  return null;
}

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
