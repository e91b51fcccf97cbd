import { isAbsolute } from 'node:path';
import { isUri } from '../../conf/values/is-uri.ts';
import { TonyError } from '../../platform/errors.ts';
import { joinUri, parseUri, refuseAbsent } from '../../storage/uri.ts';
import { uriOf } from './uri-of.ts';

/**
 * Returns an output's URI. A URI stays unchanged. A relative path is relative to the job's output folder, and an absolute path is on that
 * folder's file system. If there is no output folder, paths are local.
 */
export function outputPlace(outputDir: string | null, output: string): string {
  refuseAbsent(output);
  if (isUri(output)) {
    return output.replace(/(?<=[^/])\/+$/, '');
  }
  if (output.split('/').includes('..')) {
    throw new TonyError('USAGE', `the output ${output} points outside its base folder`);
  }
  if (outputDir === null) {
    return uriOf(output);
  }
  if (!isAbsolute(output)) {
    return joinUri(outputDir, ...output.split('/').filter((part) => part !== '.'));
  }
  const place = parseUri(outputDir);
  if (place.scheme === 'file') {
    return uriOf(output);
  }
  return joinUri(`${place.scheme}://${place.scheme === 's3' ? place.bucket : place.authority}/`, output);
}
