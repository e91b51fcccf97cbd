import type { ApplicationFilter, ResourceManager } from './resource-manager.ts';
import type { Application } from './resource-manager-answers.ts';

/*
 * Which of two applications was submitted first: the one that the ResourceManager has taken on earlier, and of the same millisecond the one with
 * the lower id. Ids alone say when somebody asked for an id, which may lie far before they submit; or they are made up.
 *
 * The ResourceManager writes 0 for the time of an application that one may not view. It goes by the true one, though, when it is asked for the
 * applications of a span of time, which it answers everybody: so each can learn of all others which were there before it.
 */

type Submission = Pick<Application, 'id' | 'startedAt'>;

/** The ids of all `applications` that were submitted before `own`, whether or not it may view them. */
export async function submittedBefore(
  own: Submission,
  applications: readonly Submission[],
  resourceManager: Pick<ResourceManager, 'applications'>,
  filter: Pick<ApplicationFilter, 'types' | 'states'>,
): Promise<ReadonlySet<string>> {
  const ids = (found: readonly Submission[]): string[] => found.map(({ id }) => id);
  // One that is not told its own time cannot ask; ids are an order as well, if not one that nobody can cheat.
  if (own.startedAt === 0) return new Set(ids(applications.filter((other) => compareIds(other.id, own.id) < 0)));
  const told = applications.filter((other) => other.startedAt > 0 && compareSubmissions(other, own) < 0);
  if (applications.every(({ startedAt }) => startedAt > 0)) return new Set(ids(told));
  const [before, together] = await Promise.all([
    resourceManager.applications({ ...filter, submitted: { to: own.startedAt - 1 } }),
    resourceManager.applications({ ...filter, submitted: { from: own.startedAt, to: own.startedAt } }),
  ]);
  return new Set(ids([...told, ...before, ...together.filter((other) => compareIds(other.id, own.id) < 0)]));
}

/**
 * All in the order of their submission, for somebody who has none of their own to ask by. One whose time is hidden stands behind all that have lower
 * ids, which may be before its true place.
 */
export function inOrderOfSubmission<T extends Submission>(applications: readonly T[]): T[] {
  let latest = 0;
  return [...applications]
    .sort((one, other) => compareIds(one.id, other.id))
    .map((application) => {
      latest = Math.max(latest, application.startedAt);
      return { application, id: application.id, startedAt: application.startedAt || latest };
    })
    .sort(compareSubmissions)
    .map(({ application }) => application);
}

function compareSubmissions(one: Submission, other: Submission): number {
  return one.startedAt - other.startedAt || compareIds(one.id, other.id);
}

/** `application_<start of the ResourceManager>_<number>`, of any size, since users may make them up. */
function compareIds(one: string, other: string): number {
  const [started, number] = partsOf(one);
  const [otherStarted, otherNumber] = partsOf(other);
  if (started !== otherStarted) return started < otherStarted ? -1 : 1;
  if (number !== otherNumber) return number < otherNumber ? -1 : 1;
  return one < other ? -1 : Number(one > other);
}

function partsOf(applicationId: string): [started: bigint, number: bigint] {
  const [, started = 0, number = 0] = /^application_(-?\d{1,20})_(-?\d{1,20})$/.exec(applicationId) ?? [];
  return [BigInt(started), BigInt(number)];
}
