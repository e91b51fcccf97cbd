import { TonyError } from '../../platform/errors.ts';

/** Checks the name of a feed or of a producer. @throws TonyError USAGE */
export function checkFeedName(text: string, place: string): void {
  if (!/^[\w.-]{1,100}$/.test(text)) {
    throw new TonyError('USAGE', `"${text}" is not a valid name for a ${place.replace(/^--/, '').toLowerCase()}.`, {
      hint: 'Use up to 100 letters, digits, dots, dashes and underscores.',
    });
  }
}
