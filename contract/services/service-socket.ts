import { closeSync, openSync } from 'node:fs';
import path from 'node:path';

/** The socket's file name. The socket's folder has mode 0700, so only the user that runs the executor and the program can connect. */
const NAME = 'socket';
/** The maximum number of bytes in a socket path. The kernel allows 108 bytes (104 on some systems), including the terminating zero. */
const LONGEST_PATH = 100;

/**
 * Returns a socket path that is short enough for the kernel. If the folder's own path is too long, the returned path leads through /proc
 * and an open descriptor for the folder. Call `release` once the socket is connected or closed.
 */
export function socketPath(folder: string): { readonly path: string; release(): void } {
  const direct = path.join(folder, NAME);
  if (Buffer.byteLength(direct) <= LONGEST_PATH) {
    return { path: direct, release: () => {} };
  }
  const descriptor = openSync(folder, 'r');
  let open = true;
  return {
    path: `/proc/self/fd/${descriptor}/${NAME}`,
    release: () => {
      if (open) {
        closeSync(descriptor);
      }
      open = false;
    },
  };
}
