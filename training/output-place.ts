import { isAbsolute } from 'node:path';
import { TonyError } from '../conf/errors.ts';
import { isUri } from '../conf/is-uri.ts';
import { joinUri, parseUri } from '../storage/uri.ts';
import { type Cluster, uriOf } from './cluster.ts';

/**
 * Where results go: a URI as it is; a path without a scheme lies in the file system of the job's own folder, and below that folder when it is
 * relative. In a program that runs by itself, and was told no folder, it is a path of this machine.
 */
export function outputPlace(cluster: Pick<Cluster, 'outputDir'>, output: string): string {
  if (isUri(output)) return output.replace(/(?<=[^/])\/+$/, '');
  if (output.split('/').includes('..')) throw new TonyError('USAGE', `the output ${output} leads out of the folder that it starts from`);
  const { outputDir } = cluster;
  if (outputDir === null) return uriOf(output);
  if (!isAbsolute(output)) return joinUri(outputDir, ...output.split('/').filter((part) => part !== '.'));
  const place = parseUri(outputDir);
  return place.scheme === 'file' ? uriOf(output) : joinUri(`hdfs://${place.authority}/`, output);
}
