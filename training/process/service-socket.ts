import { closeSync, openSync } from 'node:fs';
import path from 'node:path';

/** The socket's name in its folder, which only the executor and the program can access (0700). */
const NAME = 'socket';
/** sockaddr_un holds 108 bytes including the terminating zero, on some systems 104. Paths of container folders are often longer. */
const LONGEST_PATH = 100;

/**
 * A path to the socket in a folder that is short enough for the kernel. For a long folder path it goes through an open descriptor of the
 * folder in /proc. The caller must call `release` after the socket is connected or closed.
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
