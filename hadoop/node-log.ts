/*
 * What a NodeManager answers for one log file of a container that it still has, `GET /ws/v1/node/containers/<id>/logs/<file>?size=<n>`:
 * the first n bytes, or for a negative n the last ones, between a head and a foot.
 *
 *   Container: container_... on host:port
 *   LogAggregationType: LOCAL
 *   =====...
 *   LogType:stdout
 *   LogLastModifiedTime:Sat Nov 21 05:12:04 +0000 2026
 *   LogLength:85                  the whole file's
 *   LogContents:
 *   <bytes>End of LogType:stdout.This log file belongs to a running container (...) and so may not be complete.
 *   *****...
 */

/** The head's last line. */
export const CONTENTS = Buffer.from('\nLogContents:\n');
/** A head is some 300 bytes, a foot some 250. */
export const MAXIMUM_HEAD_BYTES = 16 * 1024;

/** Length of the whole file when it was read; throws a RangeError for a head without it. */
export function logLengthOf(head: Buffer): number {
  const length = /^LogLength:(\d{1,15})$/m.exec(head.toString('latin1'))?.[1];
  if (length === undefined) throw new RangeError('the answer has no LogLength');
  return Number(length);
}

/** What stands below the contents says whether more may come. */
export function saysRunning(foot: Buffer): boolean {
  return foot.includes('belongs to a running container');
}
