import { type ExplainedKey, explainKey } from '../conf/explain-key.ts';
import { jobJsonSchema } from '../conf/job-schema.ts';
import { siteJsonSchema } from '../conf/resolve/site.ts';
import type { JsonSchema } from '../conf/values/json-schema.ts';
import { ERROR_CODES, EXIT_CODES } from '../platform/errors.ts';
import { commandPage } from './command-reference.ts';
import { programContract } from './program-contract.ts';
import { tonyKeyTable } from './tony-key-table.ts';

/*
 * Generates the pages of docs/ that repeat facts from the code. The test compares the pages with the generated text; UPDATE=1 rewrites
 * them.
 */

export const REFERENCE_PAGES: Readonly<Record<string, () => string>> = {
  'job-yaml.md': jobPage,
  'errors.md': errorPage,
  'commands.md': commandPage,
  'environment.schema.json': () => `${JSON.stringify(programContract(), null, 2)}\n`,
};

/** Generated parts of hand-written pages, each between two marker comments. */
export const REFERENCE_PARTS: Readonly<Record<string, () => string>> = {
  'moving-from-tony.md': tonyKeyTable,
  'site-and-quotas.md': siteKeyList,
};

const PART = /(<!-- generated from the code: start -->\n)[\s\S]*(<!-- generated from the code: end -->)/;

export function withPart(page: string, part: string): string {
  if (!PART.test(page)) {
    throw new Error('the page lacks the two marker comments of the generated part');
  }
  return page.replace(PART, (_, before: string, after: string) => `${before}${part}\n${after}`);
}

/** Placeholders for names that users choose, by parent key. */
const CHOSEN: Readonly<Record<string, string>> = {
  roles: 'ROLE',
  data: 'NAME',
  files: 'FILE',
  archives: 'FOLDER',
  env: 'VARIABLE',
  resources: 'RESOURCE',
};

function jobPage(): string {
  const rows = keysBelow(jobJsonSchema(), '').map(
    ({ key, value, default: fallback, description }) =>
      `| \`${key}\` | ${cell(value)} | ${fallback === null ? '' : `\`${cell(fallback)}\``} | ${cell(description)} |`,
  );
  return [
    '# job.yaml, key by key',
    '',
    'This page lists every key of job.yaml. Only `name`, `roles` and a `command` for each role are required.',
    'Write memory as `512m` or `4g` (`4G`, `4GB`, `4Gi` and `4GiB` mean the same, and so do the forms of `m` and `t`), and times',
    'as `500ms`, `30s`, `10m`, `1h30m` or `1d`.',
    'To look up one key in a terminal, run `tony-ts explain KEY`.',
    '',
    '| key | value | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

/** Lists the job.yaml keys that a site file may set. If it may set only some keys of a section, lists these keys. */
function siteKeyList(): string {
  const names = (section: string): string[] => (explainKey(siteJsonSchema(), section)?.children ?? []).map(({ key }) => key);
  const inJob = (section: string): string[] => (explainKey(jobJsonSchema(), section)?.children ?? []).map(({ key }) => key);
  const jobKeys = names('final')
    .filter((key) => key !== 'roles')
    .flatMap((key) => {
      const own = names(`final.${key}`);
      return inJob(key).length === own.length ? [key] : own.map((child) => `${key}.${child}`);
    });
  const list = (keys: readonly string[]): string => keys.map((key) => `\`${key}\``).join(', ');
  return [
    `- for the job: ${list(jobKeys)}`,
    `- for roles: ${list(names('final.roles.NAME'))}`,
    `- in \`defaults\` only: ${list(names('defaults').filter((key) => !names('final').includes(key)))}`,
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
    return [own, ...keysBelow(schema, full)];
  });
}

function errorPage(): string {
  const rows = Object.entries(ERROR_CODES).map(
    ([code, { exit, means, hint }]) => `| \`${code}\` | ${cell(means)} | ${exit}: ${EXIT_CODES[exit]} | ${hint === '' ? '' : cell(hint)} |`,
  );
  return [
    '# Errors, code by code',
    '',
    'This page lists every error code. A command that fails prints what happened and, after `hint:`, the next step.',
    'If the printed hint differs from this table, follow the printed hint. With `--output json`, the output also',
    'contains the code.',
    'To look up one code in a terminal, run `tony-ts explain CODE`.',
    '',
    '| code | meaning | exit code | next step |',
    '| --- | --- | --- | --- |',
    ...rows.sort(),
    '',
  ].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s+/g, ' ');
}
