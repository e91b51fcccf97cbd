import type { ApiObject } from '../../../conf/status/api-object.ts';

export const OUTPUT_FORMATS = ['table', 'json', 'yaml'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/**
 * Characters that terminals may interpret but that JSON and YAML do not escape: C1 control characters, and characters that change the text
 * direction.
 */
const UNSAFE = /[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Returns a function that formats a value as a line of JSON or as a YAML document. */
export async function valueFormatter(format: Exclude<OutputFormat, 'table'>): Promise<(value: ApiObject) => string> {
  if (format === 'json') {
    return (value) => `${JSON.stringify(value).replace(UNSAFE, escaped)}\n`;
  }
  const { Document, Scalar, visit } = await import('yaml');
  return (value) => {
    // Convert to JSON first, so that YAML output, like JSON, omits undefined and contains dates as strings.
    const document = new Document(JSON.parse(JSON.stringify(value)));
    // Only double-quoted YAML strings may contain escape sequences.
    const quote = (_: unknown, scalar: InstanceType<typeof Scalar>): void => {
      if (typeof scalar.value === 'string' && scalar.value.search(UNSAFE) >= 0) {
        scalar.type = Scalar.QUOTE_DOUBLE;
      }
    };
    visit(document, { Scalar: quote });
    return `---\n${document.toString({ lineWidth: 0 }).replace(UNSAFE, escaped)}`;
  };
}

export type ValueWriter = (value: ApiObject) => void;

/** Returns a function that writes values to stdout immediately. */
export async function valueWriter(format: Exclude<OutputFormat, 'table'>): Promise<ValueWriter> {
  const text = await valueFormatter(format);
  return (value) => void process.stdout.write(text(value));
}
