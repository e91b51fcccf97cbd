import type { ApplicationFilter, ResourceManager } from './resource-manager.ts';
import type { Application } from './resource-manager-answers.ts';

/*
 * The submission order of applications: by the time at which the ResourceManager accepted them, and within a millisecond by ID. The ID alone
 * is not enough: a client may request it long before the submission, and users can invent IDs.
 *
 * The ResourceManager reports time 0 for an application that the caller may not view. However, every user can query a range of submission
 * times, and the query uses the real times. An application can therefore find out which applications precede it.
 */

type Submission = Pick<Application, 'id' | 'startedAt'>;

/** Returns the IDs of all `applications` that were submitted before `own`, including those that `own` may not view. */
export async function submittedBefore(
  own: Submission,
  applications: readonly Submission[],
  resourceManager: Pick<ResourceManager, 'applications'>,
  filter: Pick<ApplicationFilter, 'types' | 'states'>,
): Promise<ReadonlySet<string>> {
  const ids = (found: readonly Submission[]): string[] => found.map(({ id }) => id);
  // Without its own submission time, an application cannot query a range, so the IDs decide.
  if (own.startedAt === 0) {
    return new Set(ids(applications.filter((other) => compareIds(other.id, own.id) < 0)));
  }
  const earlier = applications.filter((other) => other.startedAt > 0 && compareSubmissions(other, own) < 0);
  if (applications.every(({ startedAt }) => startedAt > 0)) {
    return new Set(ids(earlier));
  }
  const [before, together] = await Promise.all([
    resourceManager.applications({ ...filter, submitted: { to: own.startedAt - 1 } }),
    resourceManager.applications({ ...filter, submitted: { from: own.startedAt, to: own.startedAt } }),
  ]);
  return new Set(ids([...earlier, ...before, ...together.filter((other) => compareIds(other.id, own.id) < 0)]));
}

/**
 * Sorts applications by submission, for callers that are not applications themselves. An application with a hidden time follows all
 * applications with lower IDs; its real position may be later.
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

/** Compares `application_<start of the ResourceManager>_<number>` with numbers of any size, because users can invent IDs. */
function compareIds(one: string, other: string): number {
  const [started, number] = partsOf(one);
  const [otherStarted, otherNumber] = partsOf(other);
  if (started !== otherStarted) {
    return started < otherStarted ? -1 : 1;
  }
  if (number !== otherNumber) {
    return number < otherNumber ? -1 : 1;
  }
  return one < other ? -1 : Number(one > other);
}

function partsOf(applicationId: string): [started: bigint, number: bigint] {
  const [, started = 0, number = 0] = /^application_(-?\d{1,20})_(-?\d{1,20})$/.exec(applicationId) ?? [];
  return [BigInt(started), BigInt(number)];
}
