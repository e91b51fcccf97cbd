import type { ObjectPlace, S3Client, Upload, UploadedPart } from './s3-client.ts';

const MIB = 1024 * 1024;
export const PART_BYTES = 8 * MIB;
/** Number of parts after which the part size doubles. A store accepts at most 10,000 parts, so an object can have up to 8 TB. */
const PARTS_PER_SIZE = 1000;
/** Maximum number of parts that are sent concurrently, to limit memory usage. */
const PARTS_IN_FLIGHT = 4;

/** Returns a part's size in bytes. Part numbers start at 1. */
function partBytes(number: number): number {
  return PART_BYTES * 2 ** Math.floor((number - 1) / PARTS_PER_SIZE);
}

/**
 * Uploads an object in parts. The object appears only when the caller completes the upload. If a part or the source fails, the function
 * aborts the upload, because the store would otherwise keep the parts.
 * @param pieces the content, in pieces as returned by `partsOf`. The function does not request another piece while PARTS_IN_FLIGHT parts
 * are being sent.
 */
export async function uploadParts(
  client: S3Client,
  place: ObjectPlace,
  writer: string,
  pieces: AsyncIterable<Uint8Array>,
  onSent: (bytes: number) => void,
): Promise<{ readonly upload: Upload; readonly parts: readonly UploadedPart[] }> {
  const upload = await client.startUpload(place, writer);
  const inFlight = new Set<Promise<void>>();
  const parts: UploadedPart[] = [];
  try {
    let number = 0;
    for await (const piece of pieces) {
      number++;
      const part = client.uploadPart(upload, number, piece).then((sent) => {
        parts.push(sent);
        onSent(piece.length);
        inFlight.delete(part);
      });
      // Prevents an unhandled rejection. The race below or the final wait reports the failure.
      part.catch(() => {});
      inFlight.add(part);
      if (inFlight.size >= PARTS_IN_FLIGHT) {
        await Promise.race(inFlight);
      }
    }
    await Promise.all(inFlight);
    return { upload, parts };
  } catch (error) {
    // Wait for all parts, because the store would keep a part that arrives after the abort.
    await Promise.allSettled(inFlight);
    await abortUpload(client, upload);
    throw error;
  }
}

/** Removes an upload's parts. Ignores errors: if the store is unreachable, its lifecycle rules should remove the parts. */
export async function abortUpload(client: S3Client, upload: Upload): Promise<void> {
  await client.abortUpload(upload).catch(() => {});
}

/** Regroups chunks into pieces of the part size. Only the last piece can be smaller. Yields at least one piece, which can be empty. */
export async function* partsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let number = 1;
  let waiting: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + partBytes(number) - length);
      waiting.push(piece);
      length += piece.length;
      at += piece.length;
      if (length === partBytes(number)) {
        yield Buffer.concat(waiting);
        [waiting, length] = [[], 0];
        number++;
      }
    }
  }
  if (length > 0 || number === 1) {
    yield Buffer.concat(waiting);
  }
}
