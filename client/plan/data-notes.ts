import type { Job } from '../../conf/job.ts';
import { isUri } from '../../conf/values/is-uri.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { placeUri } from '../files/place-uri.ts';

/**
 * Returns a note for each input on HDFS or in an object store that does not exist or that the user may not read. A note does not prevent the
 * submission, because an earlier role of the job may create the input.
 * @param home base URI for relative locations
 */
export async function dataNotes(data: Job['data'], home: string, storage: Storage): Promise<string[]> {
  const remote = Object.entries(data).filter(([, place]) => isUri(place));
  const notes = await Promise.all(
    remote.map(async ([name, place]) => {
      const uri = placeUri(place, home) ?? place;
      try {
        return (await storage.stat(uri)) === null
          ? `data.${name}: ${uri} does not exist. Unless a program of the job creates it, programs cannot read it.`
          : null;
      } catch (error) {
        // The nodes may reach a service that this machine does not reach.
        return error instanceof TonyError && error.code === 'ACCESS_DENIED' ? `data.${name}: ${messageOf(error)}` : null;
      }
    }),
  );
  return notes.filter((note) => note !== null);
}
