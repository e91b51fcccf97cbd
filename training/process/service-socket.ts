import { closeSync, openSync } from 'node:fs';
import path from 'node:path';

/** The file name of the socket. The folder has mode 0700, so only the user of the executor and the program can connect. */
const NAME = 'socket';
/**
 * The maximum length of a socket path, in bytes. The kernel allows 108 bytes with the terminating zero (104 on some systems), and paths of
 * container folders are often longer.
 */
const LONGEST_PATH = 100;

/**
 * Returns a path to the socket that is short enough for the kernel. If the path of the folder is too long, the returned path goes through
 * /proc and an open descriptor of the folder. Call `release` once the socket is connected or closed.
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
