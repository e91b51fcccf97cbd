import type { HadoopCluster } from '../cluster/cluster.ts';
import { doubtful, good, type Verdict } from './diagnosis.ts';

/** A login that ends within this time may end during the first command. */
const SOON_MS = 30 * 60_000;

/** Returns who the user is on the cluster, by which login, and until when. */
export async function loginVerdict({ login, user }: HadoopCluster): Promise<Verdict> {
  const { text, endsAt } = await login.describe();
  if (endsAt === null) {
    return good(`${user}, ${text}`);
  }
  const leftMs = endsAt - Date.now();
  const whole = `${user}, ${text}, until ${new Date(endsAt).toISOString()}`;
  return leftMs < SOON_MS ? doubtful(whole, 'Renew it soon: kinit, or kinit -R for a renewable ticket.') : good(whole);
}
