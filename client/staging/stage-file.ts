import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { TonyError } from '../../platform/errors.ts';
import { placeUri } from '../files/place-uri.ts';
import { archiveEnding, type JobFile } from '../job/job-files.ts';
import { whyNotPublic } from './public-file.ts';
import { findFile, findFolder, isResourceThere, type Part, presentPart, type StagingPlace } from './staging.ts';

/**
 * Finds a file or archive that is listed in job.yaml. The storage path of a local file contains a hash of its content. `stage` uploads the
 * file if it is missing.
 * @param home base URI for relative locations
 * @throws TonyError SOURCE_NOT_FOUND, JOB_INVALID for a file that cannot be public
 */
export async function findJobFile(place: StagingPlace, file: JobFile, home: string): Promise<Part<LocalResource>> {
  const { shipped, content } = file;
  const { name, path, type } = shipped;
  const own = shipped.visibility ?? 'private';
  if (content === 'on-storage') {
    return presentFile(place, file, placeUri(path, home) ?? path);
  }
  if ('folder' in content) {
    return localised(await findFolder(place, name, content.folder), file, own);
  }
  const storedAs = type === 'archive' ? `${name}${archiveEnding(file)}` : name;
  return localised(await findFile(place, name, { file: path, ...content }, { type, storedAs }), file, own);
}

async function presentFile({ storage }: StagingPlace, file: JobFile, uri: string): Promise<Part<LocalResource>> {
  const { shipped, key } = file;
  const entry = await storage.stat(uri);
  if (entry?.type !== 'file') {
    throw new TonyError('SOURCE_NOT_FOUND', `${key}: ${uri} ${entry === null ? 'does not exist' : 'is a folder'}.`, {
      hint: 'Correct the URI in job.yaml. NodeManagers can localise only files and archives. To let programs read a folder on storage, list the folder under `data`.',
    });
  }
  const { size, modifiedAt: timestamp } = entry;
  const visibility = await visibilityOf(storage, file, entry);
  const resource: LocalResource = { name: shipped.name, uri, type: shipped.type, visibility, size, timestamp };
  return localised(
    presentPart(shipped.name, size, resource, (staged) => isResourceThere(storage, staged)),
    file,
    visibility,
  );
}

async function visibilityOf(
  storage: StagingPlace['storage'],
  { shipped, key }: JobFile,
  entry: Parameters<typeof whyNotPublic>[1],
): Promise<LocalResource['visibility']> {
  const { visibility } = shipped;
  if (visibility === 'private' || visibility === 'application') {
    return visibility;
  }
  const reason = await whyNotPublic(storage, entry);
  if (reason === null) {
    return 'public';
  }
  if (visibility === 'public') {
    throw new TonyError('JOB_INVALID', `${key} cannot be public, because ${reason}.`, {
      hint: 'A public file requires read permission for others (o+r), and execute permission for others (o+x) on every folder above it. Change the permissions, or remove `visibility`.',
    });
  }
  return 'private';
}

/** Returns the part with its name and visibility in containers. */
function localised(part: Part<LocalResource>, { place }: JobFile, visibility: LocalResource['visibility']): Part<LocalResource> {
  const named = (resource: LocalResource): LocalResource => ({ ...resource, name: place, visibility });
  return { ...part, expected: named(part.expected), stage: async (signal) => named(await part.stage(signal)) };
}
