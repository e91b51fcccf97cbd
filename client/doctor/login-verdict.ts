import type { HadoopCluster } from '../cluster/cluster.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

/** If a login expires within this time (ms), the user should renew it. */
const SOON_MS = 30 * 60_000;

/** Reports the user name, the type of login, and the time at which the login expires. */
export async function loginVerdict({ login, user }: HadoopCluster): Promise<CheckResult> {
  const { text, endsAt } = await login.describe();
  if (endsAt === null) {
    return good(`${user}, ${text}`);
  }
  const leftMs = endsAt - Date.now();
  const whole = `${user}, ${text}, until ${new Date(endsAt).toISOString()}`;
  return leftMs < SOON_MS ? doubtful(whole, 'Renew it soon: kinit, or kinit -R for a renewable ticket.') : good(whole);
}
