import type { Ring } from './ring.ts';

/** Sends rank 0's bytes to every rank. The other ranks pass null. */
export async function broadcastBytes(ring: Ring, bytes: Uint8Array | null): Promise<Uint8Array> {
  if (ring.worldSize === 1) {
    return bytes ?? new Uint8Array(0);
  }
  // Sends the length as two 16-bit halves, which float32 represents exactly.
  const length = Float32Array.of((bytes?.length ?? 0) >>> 16, (bytes?.length ?? 0) & 0xffff);
  await ring.broadcast(length);
  const size = (length[0] as number) * 65_536 + (length[1] as number);
  const carrier = ring.vector(Math.ceil(size / 4));
  const view = new Uint8Array(carrier.buffer, carrier.byteOffset, size);
  if (bytes !== null) {
    view.set(bytes);
  }
  await ring.broadcast(carrier);
  return view;
}

/** Returns every rank's string in rank order. All ranks get the same result. */
export async function gatherTexts(ring: Ring, text: string): Promise<string[]> {
  return (await gatherBytes(ring, Buffer.from(text))).map((bytes) => Buffer.from(bytes).toString('utf8'));
}

/** Returns the first text that is not empty, or the empty string. */
export function firstText(texts: readonly string[]): string {
  return texts.find((text) => text !== '') ?? '';
}

/**
 * Returns every rank's bytes in rank order. All ranks get the same result. Suitable only for small data, because each rank sends a vector
 * of the total length.
 */
export async function gatherBytes(ring: Ring, bytes: Uint8Array): Promise<Uint8Array[]> {
  if (ring.worldSize === 1) {
    return [bytes];
  }
  // For each element, at most one rank adds a nonzero 16-bit number, so the float32 sums are exact.
  const lengths = ring.vector(ring.worldSize * 2);
  lengths.fill(0);
  lengths[ring.rank * 2] = bytes.length >>> 16;
  lengths[ring.rank * 2 + 1] = bytes.length & 0xffff;
  await ring.allReduce(lengths);
  const sizes = Array.from({ length: ring.worldSize }, (_, rank) => {
    return (lengths[rank * 2] as number) * 65_536 + (lengths[rank * 2 + 1] as number);
  });
  const offsets = sizes.map((_, rank) => sizes.slice(0, rank).reduce((sum, size) => sum + size, 0));
  const all = ring.vector(sizes.reduce((sum, size) => sum + size, 0));
  all.fill(0);
  all.set(bytes, offsets[ring.rank]);
  await ring.allReduce(all);
  return sizes.map((size, rank) => Uint8Array.from(all.subarray(offsets[rank], (offsets[rank] as number) + size)));
}
