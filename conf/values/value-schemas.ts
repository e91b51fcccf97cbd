import * as z from 'zod';
import { ROLE_NAME_OR_ALL } from './role-name.ts';
import { formatDuration, parseDuration, parseMemory } from './units.ts';

const MEMORY_MESSAGE = 'expected a size such as 512m or 4g';
const DURATION_MESSAGE = 'expected a duration such as 500ms, 30s, 10m or 2h';

/**
 * Maximum memory in MiB (8 PiB). With this limit, the total memory of the largest role is a safe integer and fits into an application tag.
 */
export const MOST_MEMORY_MB = 2 ** 33;

export function memory(description: string) {
  return z
    .union([z.int().positive(), z.string().regex(/^\d+(\.\d+)?\s*[mMgGtT]([iI]?[bB])?$/, { error: MEMORY_MESSAGE })], {
      error: MEMORY_MESSAGE,
    })
    .transform((value, context) => {
      const mebibytes = parseMemory(value);
      if (mebibytes !== undefined && mebibytes <= MOST_MEMORY_MB) {
        return mebibytes;
      }
      context.addIssue({ code: 'custom', message: mebibytes === undefined ? MEMORY_MESSAGE : 'must be at most 8192t' });
      return z.NEVER;
    })
    .describe(`${description} A plain number is in MiB.`);
}

export function duration(description: string, limits: { min?: number; max?: number; why?: string } = {}) {
  return z
    .string({ error: DURATION_MESSAGE })
    .regex(/^\d+(\.\d+)?\s*(ms|[sSmMhHdD])$/, { error: DURATION_MESSAGE })
    .transform((value, context) => {
      const ms = parseDuration(value);
      const why = limits.why === undefined ? '' : ` (${limits.why})`;
      if (ms === undefined) {
        context.addIssue({ code: 'custom', message: DURATION_MESSAGE });
      } else if (limits.min !== undefined && ms < limits.min) {
        context.addIssue({ code: 'custom', message: `must be at least ${formatDuration(limits.min)}${why}` });
      } else if (limits.max !== undefined && ms > limits.max) {
        context.addIssue({ code: 'custom', message: `must be at most ${formatDuration(limits.max)}${why}` });
      } else {
        return ms;
      }
      return z.NEVER;
    })
    .describe(description);
}

export const count = (least: number, most = 1_000_000, error: string | z.core.$ZodErrorMap = 'expected a whole number') =>
  z.int({ error }).min(least).max(most);
export const atLeastOne = <Item extends z.ZodType>(item: Item) => z.array(item).min(1);
export const text = () => z.string({ error: 'expected a string' }).min(1, { error: 'must not be empty' });

export const roleNameOrAll = z
  .string()
  .regex(ROLE_NAME_OR_ALL, { error: 'is not a valid role name (lower-case letters, digits and -), and is not *' });
