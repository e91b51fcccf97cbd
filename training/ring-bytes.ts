import type { Ring } from './ring.ts';

/** Hands the bytes of rank 0 to everybody; other ranks pass null. */
export async function broadcastBytes(ring: Ring, bytes: Uint8Array | null): Promise<Uint8Array> {
  if (ring.worldSize === 1) {
    return bytes ?? new Uint8Array(0);
  }
  // Lengths up to 2^48 in two numbers that float32 holds exactly.
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
