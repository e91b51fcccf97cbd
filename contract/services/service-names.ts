/* The services that the ApplicationMaster offers to programs. Requests are JSON and idempotent, so programs can safely retry them. */

/** A program asks whether the training has ended: whether all programs that train together have ended for good. */
export const TRAINING_ENDED = 'training.ended';
/** A reader that receives dispatched splits joins a pass over the data and reports the splits that it has already received. */
export const SPLITS_JOIN = 'splits.join';
/** A reader requests the next entry of its log, by number. */
export const SPLITS_NEXT = 'splits.next';
/** The answer if the dispatcher has no record of the reader's pass. The reader must then join again. */
export const SPLITS_FORGOTTEN = 'forgotten';
/** A feed reader requests records and acknowledges those that it received earlier. */
export const FEED_TAKE = 'feed.take';
/** A feed reader leaves the feed. Its unacknowledged records go to other readers. */
export const FEED_LEAVE = 'feed.leave';
/**
 * An executor asks for its program what a feed consists of: `records` from producers, `partitions` from a source that can send them again, or
 * a `stream` of micro-batches, each with partitions.
 */
export const FEED_KIND = 'feed.kind';
/** An executor reports what one of its ranks has received and wants. The answer contains new pieces. */
export const PARTITIONS_REPORT = 'partitions.report';
/** A source declares a partitioned feed. */
export const PARTITIONS_OPEN = 'partitions.open';
/** A source asks which pieces it must send. */
export const PARTITIONS_PLAN = 'partitions.plan';
/** A source is about to compute a partition, and asks where to send it. */
export const PARTITIONS_OFFER = 'partitions.offer';
/** An executor publishes its door for sources. */
export const PARTITIONS_DOOR = 'partitions.door';
/** A source tells which micro-batch of a stream it processes, and waits until a checkpoint contains it. */
export const PARTITIONS_STREAM = 'partitions.stream';
/** An executor asks for its program which micro-batch of a stream comes next. */
export const PARTITIONS_NEXT_BATCH = 'partitions.next-batch';
/** An executor's own services for a program that reads a partitioned feed. */
export const PIECES_KIND = 'pieces.kind';
export const PIECES_OPEN = 'pieces.open';
export const PIECES_NEXT = 'pieces.next';
export const PIECES_NEXT_BATCH = 'pieces.next-batch';
/** A program waits for the next request that it answers, and replies to it. The executor itself provides these services. */
export const REQUESTS_NEXT = 'pieces.next-request';
export const REQUESTS_REPLY = 'pieces.reply';
