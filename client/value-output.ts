/** How a command says what it has found: a table for people, or values for programs. */
export const OUTPUT_FORMATS = ['table', 'json', 'yaml'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Values as text: JSON on one line each, YAML as one document each. */
export async function valueFormatter(format: Exclude<OutputFormat, 'table'>): Promise<(value: unknown) => string> {
  if (format === 'json') return (value) => `${JSON.stringify(value)}\n`;
  const { stringify } = await import('yaml');
  // By way of JSON, so that both say the same: what is undefined is left out, dates are text.
  return (value) => `---\n${stringify(JSON.parse(JSON.stringify(value)), { lineWidth: 0 })}`;
}

/** Writes values to stdout, each when it is told. */
export async function valueWriter(format: Exclude<OutputFormat, 'table'>): Promise<(value: unknown) => void> {
  const text = await valueFormatter(format);
  return (value) => void process.stdout.write(text(value));
}
