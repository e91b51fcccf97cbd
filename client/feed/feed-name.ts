import { TonyError } from '../../platform/errors.ts';

/** Checks the name of a feed or of a producer. @throws TonyError USAGE */
export function checkFeedName(text: string, place: string): void {
  if (!/^[\w.-]{1,100}$/.test(text)) {
    throw new TonyError('USAGE', `"${text}" is not a valid name for a ${place.replace(/^--/, '').toLowerCase()}.`, {
      hint: 'Use up to 100 letters, digits, dots, dashes and underscores.',
    });
  }
}

/**
 * Formats of the records on standard input. `frames` is for programs: a 32-bit big-endian length before each record, and ff ff ff ff after
 * the last record. A program that dies does not write this end, so its feed does not end either.
 */
export const FEED_FORMATS = ['lines', 'tfrecord', 'frames'] as const;
export type FeedFormat = (typeof FEED_FORMATS)[number];
