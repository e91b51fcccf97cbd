import { TonyError } from '../../platform/errors.ts';

const HIGHEST = 65_535;

/** Parses `PORT`, or `LOCAL:PORT`, where an empty LOCAL stands for any free port. @throws TonyError USAGE */
export function parsePorts(text: string): { readonly port: number; readonly localPort: number | undefined } {
  const [, local, remote = ''] = /^(?:(\d{0,5}):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(remote);
  const localPort = local === undefined ? undefined : Number(local);
  if (port < 1 || port > HIGHEST || (localPort ?? 0) > HIGHEST) {
    throw new TonyError('USAGE', `"${text}" is not a port.`, {
      hint: 'Name a port from 1 to 65535, or LOCAL:PORT, such as 16006:6006.',
    });
  }
  return { port, localPort };
}
