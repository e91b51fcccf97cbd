import { isAbsolute, resolve } from 'node:path';
import { isUri } from '../../conf/values/is-uri.ts';
import { fileUri, refuseAbsent } from '../../storage/uri.ts';

/** Converts a path to a file URI. Returns a URI unchanged. */
export function uriOf(place: string): string {
  refuseAbsent(place);
  return isUri(place) ? place : fileUri(isAbsolute(place) ? place : resolve(place));
}
