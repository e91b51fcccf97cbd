import { TonyError } from '../../../platform/errors.ts';

/**
 * Parses the address of a ResourceManager's web server: `http://rm:8088`, or `rm` for Hadoop's default port.
 * @throws TonyError USAGE
 */
export function webAddress(address: string): URL {
  const text = address.includes('://') ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '' || !/^https?:$/.test(url.protocol)) {
    // The part before the last @ may contain a password.
    const at = address.lastIndexOf('@');
    const shown = at < 0 ? address : `***${address.slice(at)}`;
    throw new TonyError('USAGE', `"${shown}" is not the address of a ResourceManager.`, {
      hint: 'Use the web address of a ResourceManager, e.g. http://rm:8088.',
    });
  }
  // If the address has no port, use Hadoop's default port. `URL` also omits an explicit port 80 for http or 443 for https.
  if (url.port === '') {
    return new URL(`${url.protocol}//${url.hostname}:${url.protocol === 'https:' ? 8090 : 8088}`);
  }
  return url;
}
