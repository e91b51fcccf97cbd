import { TonyError } from '../../platform/errors.ts';

/** The error for a file above the size limit; callers check the size before allocating memory. */
export function tooLarge(place: string, size: number, maxBytes: number): TonyError {
  return new TonyError('JOB_FAILED', `${place} is ${size} bytes long; the limit is ${maxBytes} bytes.`, {
    hint: 'Return a smaller value, and write large results to a file in the output folder.',
  });
}
