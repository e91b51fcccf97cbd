import type { ApplicationFilter, ResourceManager } from './resource-manager.ts';
import type { Application } from './resource-manager-answers.ts';

/*
 * The order in which the ResourceManager accepted applications, with the application ID as tie-breaker. The ID alone does not determine the
 * order: clients can request IDs long before submission, or invent them. The ResourceManager reports the submission time 0 for applications
 * that the caller has no permission to view. However, filters by submission time use the real times, and every user can apply them. An
 * application can therefore determine which applications were submitted before it.
 */

type Submission = Pick<Application, 'id' | 'startedAt'>;

/** Returns the IDs of the `applications` that were submitted before `own`, even if their submission times are hidden. */
export async function submittedBefore(
  own: Submission,
  applications: readonly Submission[],
  resourceManager: Pick<ResourceManager, 'applications'>,
  filter: Pick<ApplicationFilter, 'types' | 'states'>,
): Promise<ReadonlySet<string>> {
  const ids = (found: readonly Submission[]): string[] => found.map(({ id }) => id);
  // Without the application's own submission time, filtering by time is impossible, so compare IDs instead.
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
 * Sorts applications by submission time. Used by processes that are not applications themselves. An application with a hidden submission
 * time is placed after all applications with lower IDs, although its true position may be even later.
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

/**
 * Compares two application IDs by the ResourceManager's start time, then by number. The numbers can be arbitrarily large, because users can
 * invent IDs.
 */
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
