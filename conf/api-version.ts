import * as z from 'zod';
import description from '../package.json' with { type: 'json' };
import type { JsonSchema } from './values/json-schema.ts';

/** Version of the format of job.yaml and tony-site.yaml. It changes only if a later format gives a present key another meaning. */
export const API_VERSION = 'tony-ts/v1';

/** Keys at the top level that belong to the user: tony-ts does not read them. */
const USER_KEY = 'x-';

export const apiVersion = z
  .literal(API_VERSION)
  .describe(
    `Version of this file's format. A version of tony-ts that cannot read the format says so, instead of listing the keys that it does not know. Keys at the top level whose names begin with ${USER_KEY} are yours: tony-ts ignores them.`,
  )
  .default(API_VERSION);

export function isUserKey(key: string): boolean {
  return key.startsWith(USER_KEY);
}

/** Returns the reason why this version of tony-ts cannot read a file with this `apiVersion`, or null if it can. */
export function apiVersionProblem(version: unknown): string | null {
  if (version === undefined || version === API_VERSION) {
    return null;
  }
  return /^tony-ts\/v\d/.test(String(version))
    ? `this file requires a tony-ts that reads ${version}. tony-ts ${description.version} reads ${API_VERSION}: install a newer tony-ts, or write the file for ${API_VERSION}`
    : `expected ${API_VERSION}`;
}

/** Completes the JSON Schema of a file with the keys that belong to the user. */
export function withUserKeys(schema: object): JsonSchema {
  return { ...schema, patternProperties: { [`^${USER_KEY}`]: {} } } as JsonSchema;
}
