import { formatAddress } from '../../platform/address.ts';
import type { GangPlace } from './gang.ts';

/**
 * Returns TF_CONFIG for tf.distribute strategies. `cluster` lists the addresses of the ranked tasks by role and index, and `task` names
 * this task. An evaluator is not listed in `cluster`, but gets the same addresses.
 */
export function tensorflowEnvironment({ role, index, members }: GangPlace): Record<string, string> {
  const cluster: Record<string, string[]> = {};
  for (const member of members.filter(({ rank }) => rank !== null).sort((a, b) => a.index - b.index)) {
    cluster[member.role] = [...(cluster[member.role] ?? []), formatAddress(member)];
  }
  return { TF_CONFIG: JSON.stringify({ cluster, task: { type: role, index } }) };
}
