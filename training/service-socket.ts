import { closeSync, openSync } from 'node:fs';
import path from 'node:path';

/** The socket's name in its folder, which is the executor's and the program's alone (0700). */
const NAME = 'socket';
/** sockaddr_un holds 108 bytes with the closing zero, on some systems 104; container folders are often longer. */
const LONGEST_PATH = 100;

/**
 * A path that the kernel takes for the socket in a folder, however long the folder's own path is: by way of an open descriptor of the folder
 * then. To be released when the socket is connected, or closed.
 */
export function socketPath(folder: string): { readonly path: string; release(): void } {
  const direct = path.join(folder, NAME);
  if (Buffer.byteLength(direct) <= LONGEST_PATH) return { path: direct, release: () => {} };
  const descriptor = openSync(folder, 'r');
  let open = true;
  return {
    path: `/proc/self/fd/${descriptor}/${NAME}`,
    release: () => {
      if (open) closeSync(descriptor);
      open = false;
    },
  };
}
