import { TonyError } from '../../platform/errors.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';
import type { HistoryStore } from './history-store.ts';
import type { JobPlace } from './job-place.ts';

const AT_ONCE = 16;
/** Maximum number of owners that a message names. */
const MOST_NAMED = 5;

/**
 * Finds a job's history by ID: the requester's own, that of the given user, or the only existing one. Any user can name a folder after
 * another user's application. Therefore, if there are several histories, returns that of the application's user.
 *
 * @throws TonyError HISTORY_UNKNOWN when no history is visible, or when the cluster no longer knows the application's owner
 */
export async function findPlace(store: HistoryStore, applicationId: string, user?: string): Promise<JobPlace> {
  const own = await store.place(user ?? store.user, applicationId);
  if (own !== null) {
    return own;
  }
  const others = user === undefined ? (await store.users()).found.filter((each) => each !== store.user) : [];
  const places = await severalAtOnce(others, AT_ONCE, (each) => store.place(each, applicationId).catch(() => null));
  const found = places.filter((place) => place !== null);
  const [first, second] = found;
  if (first !== undefined) {
    return second === undefined ? first : ofApplicationUser(store, applicationId, found);
  }
  const whose = user === undefined || user === store.user ? '' : ` of ${user}`;
  throw new TonyError('HISTORY_UNKNOWN', `There is no history of ${applicationId}${whose}. ${store.limits}`.trim());
}

async function ofApplicationUser(store: HistoryStore, applicationId: string, places: readonly JobPlace[]): Promise<JobPlace> {
  const answers = await store.answers(places);
  const found = places.find(({ folder }) => typeof answers.get(folder) === 'object');
  if (found !== undefined) {
    return found;
  }
  const more = places.length > MOST_NAMED ? ` and ${places.length - MOST_NAMED} more` : '';
  const users = places.slice(0, MOST_NAMED).map((place) => place.user);
  throw new TonyError(
    'HISTORY_UNKNOWN',
    `Several users have a history of ${applicationId}: ${users.join(', ')}${more}. The cluster no longer knows which of them submitted it.`,
    { hint: 'Use --user to name the user who submitted the job.' },
  );
}
