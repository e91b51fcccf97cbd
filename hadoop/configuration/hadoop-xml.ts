import sax from 'sax';
import { TonyError } from '../../platform/errors.ts';

/**
 * A property in a Hadoop configuration file:
 *
 *   <configuration>
 *     <property> <name>k</name> <value>v</value> <final>true</final> </property>
 *     <property name="k" value="v" final="true"/>
 *   </configuration>
 */
export interface XmlProperty {
  readonly name: string;
  readonly value: string;
  /** True if later configuration files cannot override the property. */
  readonly final: boolean;
  /**
   * The file that sets the value, as a daemon's /conf response reports it, e.g. `yarn-default.xml`. Null for a property read from a file.
   */
  readonly source: string | null;
}

/** A reference to a file whose properties replace the element, such as `<xi:include href="mountTable.xml"/>`. */
export interface XmlInclude {
  readonly include: string;
  /** True if the element contains an empty <xi:fallback>, so that the file may be missing. */
  readonly optional: boolean;
  readonly line: number;
}

/** Parts of a property. Hadoop accepts each of them as an attribute or as a child element. */
const PARTS = new Set(['name', 'value', 'final', 'source']);

/** Prevents sax from accepting HTML's named entities. The cast is necessary because sax's type declarations lack this option. */
const ONLY_XML_ENTITIES = { strictEntities: true } as sax.SAXOptions;

/**
 * Parses a configuration file without includes.
 * @throws TonyError HADOOP_CONF_INVALID if the file includes another file
 */
export function parseHadoopXml(text: string, file: string): XmlProperty[] {
  return parseWithIncludes(text, file).map((part) => {
    if ('include' in part) {
      throw new TonyError('HADOOP_CONF_INVALID', `${file}:${part.line}: XInclude is not supported here: put the properties into this file`);
    }
    return part;
  });
}

/** Parses a configuration file. The parser skips DOCTYPE declarations, and does not expand the entities that they declare. */
export function parseWithIncludes(text: string, file: string): (XmlProperty | XmlInclude)[] {
  const properties: (XmlProperty | XmlInclude)[] = [];
  let depth = 0;
  let property: { readonly line: number; readonly parts: Map<string, string> } | null = null;
  let content = '';
  let roots = 0;
  const parser = sax.parser(true, ONLY_XML_ENTITIES);
  const lineNow = (): number => parser.line + 1;
  const fail = (problem: string, line = lineNow()): never => {
    throw new TonyError('HADOOP_CONF_INVALID', `${file}:${line}: ${problem}`);
  };
  const add = (text: string): void => {
    content += text;
  };

  // sax appends the position to its messages: `Unexpected close tag Line: 3 ...`.
  parser.onerror = ({ message }) => {
    const [problem = ''] = message.split('\n');
    fail(problem === 'Non-whitespace before first tag.' ? 'the file is not XML: it does not begin with a tag' : problem);
  };
  parser.ontext = add;
  parser.oncdata = add;
  parser.onopentag = ({ name, attributes }) => {
    if (depth === 0) {
      roots += 1;
    }
    if (depth === 0 && name !== 'configuration') {
      fail(`the root element is <${name}> instead of <configuration>`);
    }
    if (roots > 1) {
      fail(`a second root element <${name}>`);
    }
    if (isXInclude(name, 'include')) {
      const { href = '', parse = 'xml', xpointer } = attributes as Readonly<Record<string, string>>;
      if (depth !== 1 || href === '' || parse !== 'xml' || xpointer !== undefined) {
        fail(`<${name}> must be a child of <configuration>, name a file with href, and have no other attributes`);
      }
      properties.push({ include: href, optional: false, line: lineNow() });
    }
    if (isXInclude(name, 'fallback')) {
      const last = properties.at(-1);
      if (depth === 2 && last !== undefined && 'include' in last) {
        properties[properties.length - 1] = { ...last, optional: true };
      }
    } else if (depth === 3 && name === 'property') {
      fail('a <property> in an <xi:fallback> is not supported');
    }
    if (name === 'property' && depth === 1) {
      property = { line: lineNow(), parts: new Map(Object.entries(attributes)) };
    }
    depth += 1;
    content = '';
  };
  parser.onclosetag = (name) => {
    depth -= 1;
    if (property !== null && depth === 2 && PARTS.has(name)) {
      property.parts.set(name, content);
    }
    if (property !== null && depth === 1) {
      properties.push(...propertyOf(property.parts, () => fail('a <property> without a <name>', property?.line)));
      property = null;
    }
    content = '';
  };
  parser.write(text).close();
  if (roots === 0) {
    fail('there is no <configuration> element');
  }
  return properties;
}

function isXInclude(name: string, element: 'include' | 'fallback'): boolean {
  return name === element || name.endsWith(`:${element}`);
}

/** Like Hadoop, ignores a property without a value. */
function propertyOf(parts: ReadonlyMap<string, string>, unnamed: () => never): XmlProperty[] {
  const name = parts.get('name')?.trim();
  if (name === undefined || name === '') {
    return unnamed();
  }
  const value = parts.get('value')?.trim();
  const final = parts.get('final')?.trim() === 'true';
  return value === undefined ? [] : [{ name, value, final, source: parts.get('source')?.trim() || null }];
}
