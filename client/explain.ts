import { ERROR_CODES, type ErrorCode, TonyError } from '../conf/errors.ts';
import { type ExplainedKey, explainKey } from '../conf/explain-key.ts';
import { jobJsonSchema } from '../conf/job-schema.ts';
import { siteJsonSchema } from '../conf/site.ts';
import { suggest } from '../conf/suggest.ts';

/** What exit codes of the command mean. */
export const EXIT_CODES = {
  0: 'the job, or the command, succeeded',
  1: 'the job failed',
  2: 'the request was wrong',
  3: 'the cluster could not be reached',
  130: 'interrupted',
} as const;

export interface ExplainedCode {
  readonly code: ErrorCode;
  readonly exitCode: 1 | 2 | 3 | 130;
  /** When there is this error. */
  readonly meaning: string;
  /** The next step; empty where it depends on what happened. */
  readonly hint: string;
}

/**
 * What a key of job.yaml is for; `site`: of tony-site.yaml.
 *
 * @param key e.g. `roles.worker.restart`; empty for the file itself.
 * @throws TonyError USAGE when there is no such key, with the one that was probably meant
 */
export function explainConfig(key = '', { site = false }: { readonly site?: boolean } = {}): ExplainedKey {
  const schema = site ? siteJsonSchema() : jobJsonSchema();
  const found = explainKey(schema, key);
  if (found !== null) return found;
  const parts = key.split('.');
  const known = (explainKey(schema, parts.slice(0, -1).join('.'))?.children ?? []).map((child) => child.key);
  const meant = suggest(parts.at(-1) ?? '', known);
  const full = meant === undefined ? '' : `; did you mean ${[...parts.slice(0, -1), meant].join('.')}?`;
  throw new TonyError('USAGE', `There is no key ${key}${full}`, { hint: 'tony-ts config explain lists all keys.' });
}

/** What every code of an error means. */
export function explainCodes(): ExplainedCode[] {
  return Object.entries(ERROR_CODES).map(([code, { exit, means, hint }]) => ({
    code: code as ErrorCode,
    exitCode: exit,
    meaning: means,
    hint,
  }));
}

/** @throws TonyError USAGE when there is no such code, with the one that was probably meant */
export function explainCode(code: string): ExplainedCode {
  const all = explainCodes();
  const name = code.toUpperCase();
  const found = all.find((each) => each.code === name);
  if (found !== undefined) return found;
  const meant = suggest(
    name,
    all.map((each) => each.code),
  );
  throw new TonyError('USAGE', `There is no error code ${code}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
    hint: 'tony-ts explain lists all codes.',
  });
}
