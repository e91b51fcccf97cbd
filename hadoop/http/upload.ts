import type { IncomingMessage } from 'node:http';
import { TonyError } from '../../platform/errors.ts';
import { type HttpClient, headOf } from './http-client.ts';

/** Number of bytes per write. Smaller writes reduce a DataNode's throughput by a third. */
const PIECE_BYTES = 1024 * 1024;

export interface UploadOptions {
  readonly idleTimeoutMs: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Stream length in bytes, if known. */
  readonly length?: number | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/**
 * Sends a PUT request with a body of any length. Resolves when the response headers have arrived. If the server rejects the request, the
 * headers can arrive before the whole body has been sent.
 */
export async function upload(
  http: HttpClient,
  url: URL,
  data: Uint8Array | AsyncIterable<Uint8Array>,
  options: UploadOptions,
): Promise<IncomingMessage> {
  let waitsForSource = false;
  const whole = data instanceof Uint8Array;
  const length = whole ? data.byteLength : options.length;
  const sent = http.start({
    method: 'PUT',
    url,
    headers: {
      ...options.headers,
      'Content-Type': 'application/octet-stream',
      ...(length === undefined ? {} : { 'Content-Length': length }),
    },
    idleTimeoutMs: options.idleTimeoutMs,
    isHeldByUs: () => waitsForSource,
  });
  let settled = false;
  let wake = (): void => undefined;
  const answer = headOf(sent).finally(() => {
    settled = true;
    wake();
  });
  // Prevents an unhandled rejection before the code below awaits the promise.
  answer.catch(() => undefined);

  /** Resolves when the socket has accepted the bytes, or when the request has failed or received a response. */
  const write = (piece: Uint8Array): Promise<void> =>
    new Promise((resolve) => {
      if (settled) {
        return resolve();
      }
      wake = resolve;
      sent.write(piece, () => resolve());
    });

  let bytes = 0;
  let flushed: Promise<void> = Promise.resolve();
  try {
    waitsForSource = true;
    for await (const piece of whole ? slices(data) : regroup(data)) {
      waitsForSource = false;
      await flushed;
      if (settled) {
        break;
      }
      bytes += piece.byteLength;
      if (length !== undefined && bytes > length) {
        throw wrongLength(length, bytes);
      }
      flushed = write(piece);
      const sentSoFar = bytes;
      if (options.onProgress !== undefined) {
        flushed = flushed.then(() => (settled ? undefined : options.onProgress?.(sentSoFar)));
      }
      waitsForSource = true;
    }
    waitsForSource = false;
    await flushed;
    if (!settled && length !== undefined && bytes < length) {
      throw wrongLength(length, bytes);
    }
    if (!settled) {
      sent.end();
    }
    return await answer;
  } catch (error) {
    sent.destroy();
    throw error;
  }
}

function wrongLength(promised: number, given: number): TonyError {
  return new TonyError('INTERNAL', `the source yielded at least ${given} bytes instead of ${promised}`);
}

function* slices(data: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < data.byteLength; at += PIECE_BYTES) {
    yield data.subarray(at, at + PIECE_BYTES);
  }
}

/**
 * Regroups chunks into pieces of 1 MiB. Uses two buffers in turn, so that one can be filled while the other is being sent. Each piece is
 * valid until the consumer requests the piece after the next one.
 */
export async function* regroup(source: AsyncIterable<Uint8Array>, pieceBytes = PIECE_BYTES): AsyncIterable<Uint8Array> {
  let filling: Uint8Array | null = null;
  let resting: Uint8Array | null = null;
  let filled = 0;
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; ) {
      filling ??= Buffer.allocUnsafeSlow(pieceBytes);
      const part = chunk.subarray(at, at + pieceBytes - filled);
      filling.set(part, filled);
      filled += part.byteLength;
      at += part.byteLength;
      if (filled < pieceBytes) {
        continue;
      }
      yield filling;
      [filling, resting] = [resting, filling];
      filled = 0;
    }
  }
  if (filling !== null && filled > 0) {
    yield filling.subarray(0, filled);
  }
}
