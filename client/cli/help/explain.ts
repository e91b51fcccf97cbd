import { type ExplainedKey, explainKey } from '../../../conf/explain-key.ts';
import { jobJsonSchema } from '../../../conf/job-schema.ts';
import { orList, placesOf } from '../../../conf/key-places.ts';
import { siteJsonSchema } from '../../../conf/resolve/site.ts';
import { ERROR_CODES, type ErrorCode, type FailureExit, TonyError } from '../../../platform/errors.ts';
import { suggest } from '../../../platform/text/suggest.ts';

/** An error code, in upper case or with an underscore. No key has either. */
const CODE = /^([A-Z0-9]+|[A-Za-z0-9]+(_[A-Za-z0-9]+)+)$/;

export interface ExplainedCode {
  readonly code: ErrorCode;
  readonly exitCode: FailureExit;
  /** Whether the same request may succeed later, without any change. */
  readonly retryable: boolean;
  readonly meaning: string;
  /** Next step, or '' if it depends on the situation. */
  readonly hint: string;
}

/**
 * Explains a key of job.yaml (or of tony-site.yaml), or an error code. Error codes may be in lower case.
 * @param topic key such as `roles.worker.restart`, error code, or '' for the whole file
 * @throws TonyError USAGE for an unknown topic, with the closest match
 */
export function explain(topic = '', options: { readonly site?: boolean } = {}): ExplainedKey | ExplainedCode {
  return CODE.test(topic) ? explainCode(topic) : explainConfig(topic, options);
}

/**
 * Explains a key of job.yaml, or of tony-site.yaml if `site` is true.
 * @param key path such as `roles.worker.restart`, its last parts if only one key ends with them, or '' for the whole file
 * @throws TonyError USAGE for an unknown key, with the closest match
 */
export function explainConfig(key = '', { site = false }: { readonly site?: boolean } = {}): ExplainedKey {
  const schema = site ? siteJsonSchema() : jobJsonSchema();
  const found = explainKey(schema, key);
  if (found !== null) {
    return found;
  }
  const parts = key.split('.');
  const places = placesOf(parts, schema).map((place) => place.join('.'));
  const only = places.length === 1 ? explainKey(schema, places[0] ?? '') : null;
  if (only !== null) {
    return only;
  }
  if (places.length > 0) {
    throw new TonyError('USAGE', `There is no key ${key} at the top level; did you mean ${orList(places)}?`, {
      hint: `Pass one of these keys to tony-ts explain${site ? ' --site' : ''}.`,
    });
  }
  const known = (explainKey(schema, parts.slice(0, -1).join('.'))?.children ?? []).map((child) => child.key);
  const meant = suggest(parts.at(-1) ?? '', known);
  const full = meant === undefined ? '' : `; did you mean ${[...parts.slice(0, -1), meant].join('.')}?`;
  throw new TonyError('USAGE', `There is no key ${key}${full}`, {
    hint: `tony-ts explain${site ? ' --site' : ''} lists all keys, and tony-ts explain --codes lists all error codes.`,
  });
}

export function explainCodes(): ExplainedCode[] {
  return Object.entries(ERROR_CODES).map(([code, { exit, means, hint }]) => ({
    code: code as ErrorCode,
    exitCode: exit,
    retryable: exit === 3,
    meaning: means,
    hint,
  }));
}

/**
 * Explains an error code, which may be in lower case.
 * @throws TonyError USAGE for an unknown code, with the closest match
 */
export function explainCode(code: string): ExplainedCode {
  const all = explainCodes();
  const name = code.toUpperCase();
  const found = all.find((each) => each.code === name);
  if (found !== undefined) {
    return found;
  }
  const meant = suggest(
    name,
    all.map((each) => each.code),
  );
  throw new TonyError('USAGE', `There is no error code ${code}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
    hint: 'tony-ts explain --codes lists all codes.',
  });
}
