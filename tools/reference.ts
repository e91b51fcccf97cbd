import { EXIT_CODES } from '../client/cli/help/explain.ts';
import { type ExplainedKey, explainKey } from '../conf/explain-key.ts';
import { type JsonSchema, jobJsonSchema } from '../conf/job-schema.ts';
import { ERROR_CODES } from '../platform/errors.ts';
import { commandPage } from './command-reference.ts';
import { tonyKeyTable } from './tony-key-table.ts';

/*
 * Generates the pages of docs/ that repeat facts from the code, so that they always agree with it. Their test compares them
 * with the generated text (UPDATE=1 rewrites them).
 */

export const REFERENCE_PAGES: Readonly<Record<string, () => string>> = {
  'job-yaml.md': jobPage,
  'errors.md': errorPage,
  'commands.md': commandPage,
};

/** Generated parts of otherwise hand-written pages, each between two marker comments. */
export const REFERENCE_PARTS: Readonly<Record<string, () => string>> = {
  'moving-from-tony.md': tonyKeyTable,
};

const PART = /(<!-- from here: made from the code -->\n)[\s\S]*(<!-- to here -->)/;

export function withPart(page: string, part: string): string {
  if (!PART.test(page)) {
    throw new Error('the page has no place for what is made from the code');
  }
  return page.replace(PART, (_, before: string, after: string) => `${before}${part}\n${after}`);
}

/** Placeholders for the names that users choose below a key. */
const CHOSEN: Readonly<Record<string, string>> = { roles: 'ROLE', data: 'NAME', env: 'VARIABLE', resources: 'RESOURCE' };

function jobPage(): string {
  const rows = keysBelow(jobJsonSchema(), '').map(
    ({ key, value, fallback, description }) =>
      `| \`${key}\` | ${cell(value)} | ${fallback === null ? '' : `\`${cell(fallback)}\``} | ${cell(description)} |`,
  );
  return [
    '# job.yaml, key by key',
    '',
    'What a job says. Only `name` and `roles` are needed, and a `command` for each role. On the command line: `tony-ts config explain KEY`.',
    'Memory is written as `512m` or `4g`, times as `500ms`, `30s`, `10m`, `2h` or `1d`.',
    '',
    '| key | value | when left out | meaning |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

function keysBelow(schema: JsonSchema, parent: string): ExplainedKey[] {
  const seen = new Set<string>();
  return (explainKey(schema, parent)?.children ?? []).flatMap(({ key }) => {
    const name = key === 'NAME' ? (CHOSEN[parent.split('.').at(-1) ?? ''] ?? key) : key;
    const full = parent === '' ? name : `${parent}.${name}`;
    const own = explainKey(schema, full);
    // Alternatives may have keys with the same name.
    if (own === null || seen.has(full)) {
      return [];
    }
    seen.add(full);
    return [own.children.length > 0 ? { ...own, fallback: null } : own, ...keysBelow(schema, full)];
  });
}

function errorPage(): string {
  const rows = Object.entries(ERROR_CODES).map(
    ([code, { exit, means, hint }]) => `| \`${code}\` | ${cell(means)} | ${exit}: ${EXIT_CODES[exit]} | ${hint === '' ? '' : cell(hint)} |`,
  );
  return [
    '# Errors, code by code',
    '',
    'A command that fails says what happened, and as a hint what to do next; with `--output json` the code stands beside. Where the hint depends on',
    'what happened, what the command says counts. On the command line: `tony-ts explain CODE`.',
    '',
    '| code | it means | exit code | what to do |',
    '| --- | --- | --- | --- |',
    ...rows.sort(),
    '',
  ].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s+/g, ' ');
}
