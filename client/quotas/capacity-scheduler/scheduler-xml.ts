import type { SchedulerConfiguration } from './scheduler-configuration.ts';

const WIDTH = 100;

/**
 * Returns the text of capacity-scheduler.xml.
 * @param about text at the beginning of the comment in the file
 */
export function schedulerXml({ properties, notices }: SchedulerConfiguration, about: readonly string[]): string {
  const comment = [...about, ...(notices.length === 0 ? [] : ['', 'Notices:']), ...notices.map((notice) => `- ${notice}`)];
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!--',
    ...comment.flatMap((line) => folded(commented(line))).map((line) => `  ${line}`.trimEnd()),
    '-->',
    '<configuration>',
    ...properties.flatMap(({ name, value, why }) => [
      '  <property>',
      `    <name>${escaped(name)}</name>`,
      `    <value>${escaped(value)}</value>`,
      ...(why === null ? [] : [`    <description>tony-ts: ${escaped(why)}</description>`]),
      '  </property>',
    ]),
    '</configuration>',
    '',
  ].join('\n');
}

function escaped(text: string): string {
  return plain(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('\r', '&#13;');
}

/** XML comments must not contain `--` or end with a dash, so this function inserts spaces between dashes. */
function commented(text: string): string {
  return plain(text)
    .replace(/-(?=-)/g, '- ')
    .replace(/-$/, '- ');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: XML does not allow these characters
const NOT_XML = /[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function plain(text: string): string {
  return text.replace(NOT_XML, '?');
}

function folded(text: string): string[] {
  const lines: string[] = [];
  let rest = text.replace(/\s+/g, ' ');
  while (rest.length > WIDTH) {
    const space = rest.lastIndexOf(' ', WIDTH);
    if (space <= 2) {
      break;
    }
    lines.push(rest.slice(0, space));
    rest = `  ${rest.slice(space + 1)}`;
  }
  return [...lines, rest];
}
