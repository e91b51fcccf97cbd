import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { parseHadoopXml } from './hadoop-xml.ts';

const site = (body: string): string => `<?xml version="1.0"?>\n<configuration>\n${body}\n</configuration>\n`;
const parse = (body: string) => parseHadoopXml(site(body), 'core-site.xml');

describe('parseHadoopXml', () => {
  test('reads elements, attributes, CDATA, entities and comments', () => {
    const text = `\uFEFF<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!DOCTYPE configuration [ <!ENTITY other "x"> ]>
<!-- a <property> in a comment -->
<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
  <property><name> a </name><value> 1 &lt; 2 &amp;&#32;&#x41; </value><final>true</final></property>
  <property><!-- c --><name>b</name><description>has <b>markup</b></description><value><![CDATA[<raw> & more]]></value></property>
  <property name="c" value='say "hi"' final="true"/>
  <property><name>empty</name><value/></property>
  <property><name>without-value</name></property>
</configuration>
<!-- the end -->`;
    expect(parseHadoopXml(text, 'f')).toEqual([
      { name: 'a', value: '1 < 2 & A', final: true, source: null },
      { name: 'b', value: '<raw> & more', final: false, source: null },
      { name: 'c', value: 'say "hi"', final: true, source: null },
      { name: 'empty', value: '', final: false, source: null },
    ]);
  });

  test('reads the source that a daemon reports for a property', () => {
    expect(parse('<property><name>k</name><value>v</value><final>false</final><source>yarn-default.xml</source></property>')).toEqual([
      { name: 'k', value: 'v', final: false, source: 'yarn-default.xml' },
    ]);
  });

  test.each([
    ['a property without a name', '<property>\n<value>v</value></property>', 'core-site.xml:3: a <property> without a <name>'],
    ['a wrong closing tag', '<property>\n<name>k</nam></property>', 'core-site.xml:4: Unexpected close tag'],
    ['an unknown entity', '<property><name>a&b;</name></property>', 'core-site.xml:3: Invalid character entity'],
    ['a bare ampersand', '<property><name>a & b</name></property>', 'core-site.xml:3: Invalid character in entity name'],
    ['an include', '<xi:include href="other.xml"/>', 'core-site.xml:3: XInclude is not supported'],
    ['an unclosed comment', '<!-- never', 'core-site.xml:5: Unclosed root tag'],
    ['a tag cut in two', '<property name="x" <', 'core-site.xml:3: Invalid attribute name'],
  ])('names the file and line of %s', (_what, body, message) => {
    expect(() => parse(body)).toThrow(message);
  });

  test.each([
    ['', 'no <configuration>'],
    ['<settings/>', 'the root element is <settings>'],
    ['hello', 'f:1: the file is not XML: it does not begin with a tag'],
    ['<configuration>', 'f:1: Unclosed root tag'],
    ['<!DOCTYPE configuration [ <!ENTITY other "x"> ]><configuration>&other;</configuration>', 'Invalid character entity'],
    ['<configuration/><configuration/>', 'a second root element'],
  ])('rejects %j', (text, message) => {
    expect(() => parseHadoopXml(text, 'f')).toThrow(message);
  });

  test('reads any name and value correctly from every XML notation', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 }).map((value) => value.trim());
    const name = text.filter((value) => value !== '');
    const spellOut = (value: string): string => value.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
    const spell = fc.constantFrom(
      (key: string, value: string) => `<property><name>${spellOut(key)}</name><value>${spellOut(value)}</value></property>`,
      (key: string, value: string) => `<property name="${spellOut(key)}" value='${spellOut(value)}'/>`,
      (key: string, value: string) =>
        `<property>\n <value>${spellOut(value)}</value> <!-- x -->\n<name>\n${spellOut(key)} </name></property>`,
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, text, spell)), (entries) => {
        const body = entries.map(([key, value, as]) => as(key, value)).join('\n');
        expect(parse(body)).toEqual(entries.map(([key, value]) => ({ name: key, value, final: false, source: null })));
      }),
    );
  });

  test('returns properties or throws a TonyError for any text', () => {
    const fragments = fc.constantFrom(
      '<',
      '>',
      '/',
      '<configuration>',
      '</configuration>',
      '<property>',
      '</property>',
      '<name>',
      '</name>',
      '<!--',
      '-->',
      '<![CDATA[',
      ']]>',
      '<!',
      '[',
      '<?',
      '?>',
      '&',
      ';',
      '&lt;',
      ' a="b"',
      "'",
      '"',
      'x',
      '\n',
      '&#x110000;',
      '&#0;',
    );
    fc.assert(
      fc.property(fc.array(fragments, { maxLength: 40 }), (pieces) => {
        try {
          parseHadoopXml(pieces.join(''), 'f');
        } catch (error) {
          expect(error).toBeInstanceOf(TonyError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** With a quadratic-time parser, this test would exceed its timeout. */
test('parses a large file in linear time, and reports the correct line of an error', () => {
  const properties = Array.from({ length: 100_000 }, (_, at) => `<property><name>n${at}</name><value>${at}</value></property>`);
  expect(parse(properties.join('\n'))).toHaveLength(100_000);
  expect(() => parse([...properties, '<property><value>1</value></property>'].join('\n'))).toThrow('core-site.xml:100003:');
});
