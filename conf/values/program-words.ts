import * as z from 'zod';
import { anyText } from './value-schemas.ts';

/* Commands and environment variables of programs. */

const environmentValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'expected a string, number or boolean' })
  .transform((value) => String(value));
/** Linux limits each argument and environment variable of a program to 128 KiB. The rest of a command's argument is the executor's. */
const LARGEST_WORD_BYTES = 128 * 1024;
const EXECUTOR_SHARE_BYTES = 4 * 1024;
/** @param names schema for the names of the variables */
export const environment = (names: z.ZodType<string, string>) =>
  z.record(names, environmentValue.describe('Value of the variable.')).superRefine((variables, context) => {
    for (const [name, value] of Object.entries(variables)) {
      const mistake = mistakeInWord(value, LARGEST_WORD_BYTES - Buffer.byteLength(name) - 2, 'an environment variable');
      if (mistake !== null) {
        context.addIssue({ code: 'custom', path: [name], message: mistake });
      }
    }
  });
export const command = anyText().superRefine((value, context) => {
  const mistake = mistakeInWord(value, LARGEST_WORD_BYTES - EXECUTOR_SHARE_BYTES, 'a command');
  if (mistake !== null) {
    context.addIssue({ code: 'custom', message: mistake });
  }
});

function mistakeInWord(value: string, limit: number, what: string): string | null {
  if (value.includes('\0')) {
    return `contains a NUL character, which ${what} cannot contain`;
  }
  const bytes = Buffer.byteLength(value);
  return bytes <= limit ? null : `has ${bytes} bytes, but Linux limits ${what} to 128 KiB; write the value to a file in the source folder`;
}
