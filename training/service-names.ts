/*
 * What programs ask of their ApplicationMaster, by name. The questions are JSON, and may be said twice.
 */

/** A reader of dispatched splits says what it has got so far. */
export const SPLITS_JOIN = 'splits.join';
/** It asks for one number of its log after the other. */
export const SPLITS_NEXT = 'splits.next';
/** The answer when its pass is not known any more: join again. */
export const SPLITS_FORGOTTEN = 'forgotten';
/** A reader of a feed asks for records, and confirms those it got before. */
export const FEED_TAKE = 'feed.take';
/** A reader of a feed goes: what it was given and has not confirmed is for others. */
export const FEED_LEAVE = 'feed.leave';
