/** Formats a JSON value as block-style YAML. A YAML parser returns the same value. */
export function toYaml(value: unknown): string {
  return `${block(value, 0)}\n`;
}

function block(value: unknown, depth: number): string {
  if (Array.isArray(value)) {
    if (value.length === 0) {
      return '[]';
    }
    return value.map((item: unknown) => `${pad(depth)}- ${block(item, depth + 1).trimStart()}`).join('\n');
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    if (entries.length === 0) {
      return '{}';
    }
    return entries
      .map(([key, item]) => `${pad(depth)}${scalar(key)}:${isBlock(item) ? `\n${block(item, depth + 1)}` : ` ${inline(item, depth)}`}`)
      .join('\n');
  }
  return inline(value, depth);
}

function isBlock(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).length > 0;
}

function inline(value: unknown, depth: number): string {
  if (typeof value === 'string') {
    return isLiteral(value) ? literal(value, depth + 1) : scalar(value);
  }
  if (Array.isArray(value)) {
    return '[]';
  }
  if (typeof value === 'object' && value !== null) {
    return '{}';
  }
  return String(value);
}

function isLiteral(text: string): boolean {
  return /^\S.*\n/.test(text) && /^[\t\n\x20-\x7e\u00a0-\ud7ff]+$/.test(text) && !/^\s*\n|\n\n$/.test(text) && !/[ \t]\n|[ \t]$/.test(text);
}

function literal(text: string, depth: number): string {
  const ends = text.endsWith('\n');
  const lines = (ends ? text.slice(0, -1) : text).split('\n');
  return `|${ends ? '' : '-'}\n${lines.map((line) => (line === '' ? '' : pad(depth) + line)).join('\n')}`;
}

/** Quotes every string that a parser could interpret as another value. JSON strings are valid YAML strings. */
function scalar(text: string): string {
  const plain = /^[A-Za-z_/$][\w ./$@+=~%(){},;:-]*$/.test(text) && !/:[ :]|[ :]$/.test(text);
  const word = /^(true|false|yes|no|on|off|null|y|n|nan|inf)$/i.test(text);
  return plain && !word ? text : JSON.stringify(text);
}

function pad(depth: number): string {
  return '  '.repeat(depth);
}
