import { posix } from 'node:path';
import { isUri } from '../../conf/values/is-uri.ts';
import { isInHome, resolvePath } from '../../platform/files/resolve-path.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';

/**
 * Converts a location such as `out/x`, `~/out/x`, `/out/x`, `hdfs:///out/x` or `hdfs://host/out/x` to a complete URI.
 * @param home URI of the home folder on HDFS, or of the working folder on this machine
 */
export function placeUri(place: string | null, home: string): string | null {
  if (place === null) {
    return null;
  }
  const [, scheme, authority] = /^([a-z][a-z0-9+.-]*:\/\/)([^/]*)/i.exec(home) ?? [];
  const root = `${scheme ?? ''}${authority ?? ''}`;
  if (place.startsWith(`${scheme}/`)) {
    return `${root}${place.slice((scheme ?? '').length)}`;
  }
  if (isUri(place)) {
    return place;
  }
  if (scheme === 'file://') {
    return fileUri(resolvePath(place, decodeURIComponent(home.slice(root.length))));
  }
  return place.startsWith('/')
    ? `${root}${posix.normalize(place)}`
    : joinUri(home, ...(isInHome(place) ? place.slice(2) : place).split('/').filter((part) => part !== '.'));
}
