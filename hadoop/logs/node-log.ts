/*
 * A NodeManager responds to GET /ws/v1/node/containers/<id>/logs/<file>?size=<n> until it removes the container. The response contains the
 * first n bytes of the log file, or its last -n bytes if n is negative, between a header and a footer:
 *
 *   Container: container_... on host:port
 *   LogAggregationType: LOCAL
 *   =====...
 *   LogType:stdout
 *   LogLastModifiedTime:Sat Nov 21 05:12:04 +0000 2026
 *   LogLength:85                  length of the whole file
 *   LogContents:
 *   <bytes>End of LogType:stdout.This log file belongs to a running container (...) and so may not be complete.
 *   *****...
 *
 * For an empty file, Hadoop 2.10 omits the header.
 */

export const CONTENTS = Buffer.from('\nLogContents:\n');
export const FOOTER = Buffer.from('End of LogType:');
/** Maximum length in bytes, both of the header and of the footer. A header usually has about 300 bytes, and a footer about 250. */
export const MAXIMUM_HEAD_BYTES = 16 * 1024;

/** Returns the whole file's length in bytes at the time of the request. Throws a RangeError if the header does not contain a length. */
export function logLengthOf(head: Buffer): number {
  const length = /^LogLength:(\d{1,15})$/m.exec(head.toString('latin1'))?.[1];
  if (length === undefined) {
    throw new RangeError('the response has no LogLength');
  }
  return Number(length);
}

/** Returns true if the footer states that the container is still running. */
export function saysRunning(foot: Buffer): boolean {
  return foot.includes('belongs to a running container');
}
