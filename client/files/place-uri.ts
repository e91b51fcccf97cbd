import path from 'node:path';
import { isUri } from '../../conf/values/is-uri.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';

/** Converts a location such as `out/x`, `/out/x`, `hdfs:///out/x` or `hdfs://host/out/x` to a complete URI. */
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
    return fileUri(path.resolve(decodeURIComponent(home.slice(root.length)), place));
  }
  return place.startsWith('/')
    ? `${root}${path.posix.normalize(place)}`
    : joinUri(home, ...place.split('/').filter((part) => part !== '.'));
}
