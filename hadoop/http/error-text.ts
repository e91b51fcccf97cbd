/*
 * Extracts messages from the error responses of web servers. The text may come from any server, so all functions first shorten it, and then
 * take time proportional to its length.
 */

/** Maximum number of characters that are read. A daemon's error page has less than 5,000, most of which are a Java stack trace. */
const LONGEST = 16 * 1024;

/** Elements whose content is not text. */
const HIDDEN: ReadonlySet<string> = new Set(['script', 'style', 'title']);

/** Returns a page's text without markup, on one line. */
export function textOfPage(html: string): string {
  const [before = '', ...parts] = html.slice(0, LONGEST).split('<');
  let text = before;
  let hidden: string | null = null;
  for (const part of parts) {
    const name = /^\/?\w{0,10}/.exec(part)?.[0].toLowerCase() ?? '';
    if (hidden !== null && name !== `/${hidden}`) {
      continue;
    }
    hidden = HIDDEN.has(name) ? name : null;
    const end = part.indexOf('>');
    text += hidden === null ? ` ${end < 0 ? part : part.slice(end + 1)}` : '';
  }
  return text.replace(/\s+/g, ' ').trim();
}

/** Returns the reason on a daemon's error page, without the Java exception's name. */
export function reasonOnPage(html: string): string {
  const page = html.slice(0, LONGEST);
  const row = page.slice(page.search(/MESSAGE:<\/th>/i) + 1);
  const cell = row.length === page.length ? page : (row.split(/<td>/i, 2)[1]?.split(/<\/td>/i, 1)[0] ?? page);
  const text = textOfPage(cell);
  const [name = ''] = text.split(': ', 1);
  return isClassName(name) ? text.slice(name.length + 2) : text;
}

/** Removes the names of exceptions that precede a message, because YARN adds the name of each wrapped exception. */
export function withoutExceptionNames(message: string): string {
  let at = 0;
  for (;;) {
    const end = message.indexOf(': ', at);
    const name = end < 0 ? '' : message.slice(at, end);
    if (!isClassName(name) || !(name.endsWith('Exception') || name.endsWith('Error'))) {
      return message.slice(at);
    }
    at = end + 2;
  }
}

/** Returns a message without the Java stack trace after its first lines. */
export function withoutStackTrace(message: string): string {
  const lines = message.slice(0, LONGEST).split('\n');
  const trace = lines.findIndex((line, at) => at > 0 && line.trimStart().startsWith('at '));
  return (trace < 0 ? lines : lines.slice(0, trace)).join('\n').trim();
}

/** Returns true for a Java class name with a package. */
function isClassName(text: string): boolean {
  return text.includes('.') && /^[\w$.]+$/.test(text);
}
