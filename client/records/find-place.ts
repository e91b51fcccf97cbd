import { TonyError } from '../../platform/errors.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import { isLocalId } from '../files/local-layout.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';
import type { HistoryStore } from './history-store.ts';
import type { JobPlace } from './job-place.ts';

const AT_ONCE = 16;
const MOST_NAMED = 5;

/**
 * Finds a job's history. Searches the histories of `user`, which defaults to the caller, and then all users' histories. If several users
 * have a history with this ID, returns the history of the user who submitted the application, because the other folders may be forged.
 * @throws TonyError HISTORY_NOT_FOUND if no history is visible, or if several users have one and YARN has no record of the application
 */
export async function findPlace(store: HistoryStore, jobId: string, user?: string): Promise<JobPlace> {
  const own = await store.place(user ?? store.user, jobId);
  if (own !== null) {
    return own;
  }
  const others = user === undefined ? (await store.users()).found.filter((each) => each !== store.user) : [];
  const places = await severalAtOnce(others, AT_ONCE, (each) => store.place(each, jobId).catch(() => null));
  const found = places.filter((place) => place !== null);
  const [first, second] = found;
  if (first !== undefined) {
    return second === undefined ? first : ofApplicationUser(store, jobId, found);
  }
  const owner = user === undefined || user === store.user ? '' : ` of ${user}`;
  const list = isLocalId(jobId) ? 'tony-ts history --local' : 'tony-ts history --all-users';
  throw new TonyError('HISTORY_NOT_FOUND', `There is no history of ${jobId}${owner}. ${store.limits}`.trim(), {
    hint: `Check the ID with \`${list}\`. tony-ts removes old histories, and a job that never started leaves none.`,
  });
}

async function ofApplicationUser(store: HistoryStore, jobId: string, places: readonly JobPlace[]): Promise<JobPlace> {
  const answers = await store.answers(places);
  const found = places.find(({ folder }) => typeof answers.get(folder) === 'object');
  if (found !== undefined) {
    return found;
  }
  const users = places.map((place) => place.user);
  throw new TonyError(
    'HISTORY_NOT_FOUND',
    `Several users have a history of ${jobId}: ${firstNames(users, MOST_NAMED)}. YARN has no record of the user who submitted it.`,
    { hint: `Name the user who submitted the job: tony-ts history show ${jobId} --user NAME.` },
  );
}
