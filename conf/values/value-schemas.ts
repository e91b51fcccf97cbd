import * as z from 'zod';
import { ROLE_NAME_OR_ALL } from './role-name.ts';
import { DURATION, formatDuration, MEBIBYTE, MEMORY, parseDuration, parseMemory, writtenMemory } from './units.ts';

const MEMORY_MESSAGE = 'expected a size such as 512m or 4g';
const DURATION_MESSAGE = 'expected a duration such as 500ms, 30s, 10m or 1h30m';

/**
 * Maximum memory in MiB (8 PiB). With this limit, the total memory of the largest role is a safe integer and fits into an application tag.
 */
export const MOST_MEMORY_MB = 2 ** 33;

/** Maximum duration in ms (100 years). With this limit, sums of a duration and a time are safe integers. */
export const LONGEST_DURATION_MS = 36_500 * 86_400_000;

export function memory(description: string) {
  return z
    .string({ error: ({ input }) => (typeof input === 'number' ? withoutUnit(input) : MEMORY_MESSAGE) })
    .regex(MEMORY, { error: ({ input }) => (/^\d+$/.test(input ?? '') ? withoutUnit(Number(input)) : MEMORY_MESSAGE) })
    .transform((value, context) => {
      const mebibytes = parseMemory(value);
      if (mebibytes !== undefined && mebibytes <= MOST_MEMORY_MB) {
        return mebibytes;
      }
      context.addIssue({ code: 'custom', message: mebibytes === undefined ? MEMORY_MESSAGE : 'must be at most 8192t' });
      return z.NEVER;
    })
    .describe(description);
}

/** Numbers below this one without a unit are meant as GiB. No program needs so few MiB, and few tasks have as many GiB. */
const LEAST_MEBIBYTES = 64;

/** A number without a unit is MiB for YARN and Slurm, and bytes for Kubernetes. */
function withoutUnit(value: number): string {
  if (value <= 0) {
    return MEMORY_MESSAGE;
  }
  const isBytes = value >= MEBIBYTE;
  return `has no unit: write ${isBytes ? writtenMemory(Math.ceil(value / MEBIBYTE)) : `${value}${value < LEAST_MEBIBYTES ? 'g' : 'm'}`}`;
}

export function duration(
  description: string,
  {
    min = 0,
    max = LONGEST_DURATION_MS,
    why,
    message = DURATION_MESSAGE,
  }: { min?: number; max?: number; why?: string; message?: string } = {},
) {
  const reason = why === undefined ? '' : ` (${why})`;
  const limits = [
    ...(min > 0 ? [`at least ${formatDuration(min)}`] : []),
    ...(max < LONGEST_DURATION_MS ? [`at most ${formatDuration(max)}`] : []),
  ];
  return z
    .string({ error: message })
    .regex(DURATION, { error: message })
    .transform((value, context) => {
      const ms = parseDuration(value);
      if (ms === undefined) {
        context.addIssue({ code: 'custom', message: DURATION_MESSAGE });
      } else if (ms < min) {
        context.addIssue({ code: 'custom', message: `must be at least ${formatDuration(min)}${reason}` });
      } else if (ms > max) {
        context.addIssue({ code: 'custom', message: `must be at most ${formatDuration(max)}${reason}` });
      } else {
        return ms;
      }
      return z.NEVER;
    })
    .describe(limits.length === 0 ? description : `${description} Must be ${limits.join(' and ')}${reason}.`);
}

export const count = (least: number, most = 1_000_000, error: string | z.core.$ZodErrorMap = 'expected a whole number') =>
  z.int({ error }).min(least).max(most);
export const atLeastOne = <Item extends z.ZodType>(item: Item) => z.array(item).min(1);
/** Text of any number of lines. */
export const anyText = () => z.string({ error: 'expected a string' }).min(1, { error: 'must not be empty' });
/** Text in one line, such as a name or a path. */
export const text = () => anyText().refine(isOneLine, { error: 'must be one line of visible text', abort: true });

function isOneLine(value: string): boolean {
  return value === '' || (value.trim() !== '' && !/\p{Cc}/u.test(value));
}

export const roleNameOrAll = z
  .string()
  .regex(ROLE_NAME_OR_ALL, { error: 'is not a valid role name (lower-case letters, digits and -), and is not *' });
