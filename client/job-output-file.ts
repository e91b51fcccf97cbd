import { TonyError } from '../conf/errors.ts';

/** Checked before memory is taken. */
export function tooLarge(place: string, size: number, maxBytes: number): TonyError {
  return new TonyError('JOB_FAILED', `${place} has ${size} bytes; at most ${maxBytes} are read.`, {
    hint: 'Return less, and leave what is large in a file of the output folder.',
  });
}
