import { TonyError } from '../../platform/errors.ts';

/**
 * The subset of XML in Hadoop's configuration files: elements, attributes, text, CDATA, comments, entities. DOCTYPE declarations are
 * skipped; the entities that they declare are not expanded.
 *
 *   <configuration>
 *     <property> <name>k</name> <value>v</value> <final>true</final> </property>
 *     <property name="k" value="v" final="true"/>
 *   </configuration>
 */
export interface XmlProperty {
  readonly name: string;
  readonly value: string;
  /** Later files cannot override the property. */
  readonly final: boolean;
  /** The origin of the value according to Hadoop, e.g. `yarn-default.xml`; only in a daemon's /conf response. */
  readonly source: string | null;
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
const NAME = /[^\s/>=<"'&]+/y;
const ATTRIBUTE = /\s+([^\s/>=<"'&]+)\s*=\s*(?:"([^"<]*)"|'([^'<]*)')/y;
const SPACE = /\s*/y;
/** Each part of a property is an attribute or a child element. */
const PARTS = new Set(['name', 'value', 'final', 'source']);

export function parseHadoopXml(text: string, file: string): XmlProperty[] {
  const properties: XmlProperty[] = [];
  // Counts lines incrementally, once for all properties.
  let counted = { position: 0, line: 1 };
  const lineAt = (position: number): number => {
    const line =
      (position < counted.position ? 1 : counted.line) + newlinesIn(text, position < counted.position ? 0 : counted.position, position);
    counted = { position, line };
    return line;
  };
  const open: string[] = [];
  let property: { line: number; parts: Map<string, string> } | null = null;
  let content = '';
  let at = text.startsWith('\uFEFF') ? 1 : 0;

  const fail = (problem: string, position = at): never => {
    throw new TonyError('HADOOP_CONF_INVALID', `${file}:${lineAt(position)}: ${problem}`);
  };
  const skipPast = (end: string, what: string): number => {
    const found = text.indexOf(end, at);
    return found < 0 ? fail(`${what} is not closed`) : found + end.length;
  };
  const opened = (name: string, attributes: ReadonlyMap<string, string>): void => {
    if (open.length === 0 && name !== 'configuration') fail(`the root element is <${name}>, expected <configuration>`);
    if (name === 'include' || name.endsWith(':include')) fail('XInclude is not supported: put the properties into this file');
    if (name === 'property' && open.length === 1) property = { line: lineAt(at), parts: new Map(attributes) };
    open.push(name);
    content = '';
  };
  const closed = (name: string): void => {
    const expected = open.pop();
    if (expected !== name) fail(expected === undefined ? `</${name}> closes nothing` : `</${name}> found where </${expected}> is expected`);
    if (property !== null && open.length === 2 && PARTS.has(name)) property.parts.set(name, content);
    if (property !== null && open.length === 1) {
      const { line, parts } = property;
      const key = parts.get('name')?.trim();
      if (key === undefined || key === '') throw new TonyError('HADOOP_CONF_INVALID', `${file}:${line}: a <property> without a <name>`);
      const value = parts.get('value');
      // Hadoop ignores a property without a value element, too.
      if (value !== undefined) {
        properties.push({
          name: key,
          value: value.trim(),
          final: parts.get('final')?.trim() === 'true',
          source: parts.get('source')?.trim() || null,
        });
      }
      property = null;
    }
    content = '';
  };

  let roots = 0;
  while (at < text.length) {
    if (text[at] !== '<') {
      const next = text.indexOf('<', at);
      const end = next < 0 ? text.length : next;
      const piece = text.slice(at, end);
      if (open.length === 0 && piece.trim() !== '') fail(`text outside of the root element: ${piece.trim().slice(0, 40)}`);
      content += expandEntities(piece, (name) => fail(`unknown entity &${name};`));
      at = end;
    } else if (text.startsWith('<!--', at)) {
      at = skipPast('-->', 'a comment');
    } else if (text.startsWith('<![CDATA[', at)) {
      const end = skipPast(']]>', 'a CDATA section');
      content += text.slice(at + '<![CDATA['.length, end - ']]>'.length);
      at = end;
    } else if (text.startsWith('<?', at)) {
      at = skipPast('?>', 'a processing instruction');
    } else if (text.startsWith('<!', at)) {
      const subset = text.slice(at, text.indexOf('>', at) + 1).includes('[');
      at = subset ? skipPast(']', 'a DOCTYPE') : at;
      at = skipPast('>', 'a DOCTYPE');
    } else if (text.startsWith('</', at)) {
      const end = skipPast('>', 'a closing tag');
      closed(text.slice(at + 2, end - 1).trim());
      at = end;
    } else {
      NAME.lastIndex = at + 1;
      const name = NAME.exec(text)?.[0] ?? fail('expected the name of an element after <');
      let position = NAME.lastIndex;
      const attributes = new Map<string, string>();
      for (;;) {
        ATTRIBUTE.lastIndex = position;
        const match = ATTRIBUTE.exec(text);
        if (match?.[1] === undefined) break;
        attributes.set(
          match[1],
          expandEntities(match[2] ?? match[3] ?? '', (entity) => fail(`unknown entity &${entity};`)),
        );
        position = ATTRIBUTE.lastIndex;
      }
      SPACE.lastIndex = position;
      SPACE.exec(text);
      position = SPACE.lastIndex;
      const empty = text[position] === '/';
      if (empty) position += 1;
      if (text[position] !== '>') fail(`<${name}> is not closed with >`, position);
      if (open.length === 0) roots += 1;
      if (roots > 1) fail(`a second root element <${name}>`);
      opened(name, attributes);
      at = position + 1;
      if (empty) closed(name);
    }
  }
  if (open.length > 0) fail(`<${open.at(-1)}> is not closed`);
  if (roots === 0) fail('no <configuration> in it');
  return properties;
}

function expandEntities(text: string, unknown: (name: string) => never): string {
  return text.replace(/&([^;&\s]*);?/g, (whole, name: string) => {
    const number = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i.exec(name);
    const code = number === null ? Number.NaN : Number.parseInt(number[1] ?? number[2] ?? '', number[1] === undefined ? 10 : 16);
    if (whole.endsWith(';') && code <= 0x10ffff) return String.fromCodePoint(code);
    const known = whole.endsWith(';') && Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : undefined;
    return known ?? unknown(name);
  });
}

function newlinesIn(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}
