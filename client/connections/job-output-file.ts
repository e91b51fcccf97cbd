import { TonyError } from '../../platform/errors.ts';

/** The error for a file above the size limit; callers check the size before allocating memory. */
export function tooLarge(place: string, size: number, maxBytes: number): TonyError {
  return new TonyError('JOB_FAILED', `${place} has ${size} bytes; at most ${maxBytes} are read.`, {
    hint: 'Return less, and leave what is large in a file of the output folder.',
  });
}
