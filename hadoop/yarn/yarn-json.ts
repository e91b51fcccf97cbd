/**
 * Parses JSON as YARN's REST API writes it. A ResourceManager without NodeManagers writes shares of nothing as bare NaN or Infinity, which
 * JSON does not have; they become null.
 * @throws SyntaxError
 */
export function parseYarnJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return JSON.parse(withoutNaN(text));
  }
}

function withoutNaN(text: string): string {
  let isString = false;
  const parts = text.split('"').map((part) => {
    const shown = isString ? part : part.replaceAll(/-?\b(?:NaN|Infinity)\b/g, 'null');
    // An escaped quote does not end a string.
    isString = !isString || endsWithEscape(part);
    return shown;
  });
  return parts.join('"');
}

function endsWithEscape(part: string): boolean {
  let backslashes = 0;
  while (part[part.length - 1 - backslashes] === '\\') {
    backslashes++;
  }
  return backslashes % 2 === 1;
}
