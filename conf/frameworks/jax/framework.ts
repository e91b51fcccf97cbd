import { formatAddress } from '../../../platform/address.ts';
import type { Framework } from '../framework.ts';
import { type GangPlace, ownMember, rankedMembers } from '../gang.ts';

export const jax: Framework = {
  title: 'JAX',
  programs: "Python programs that receive the framework's environment variables",
  trainingLibrary: 'never',
  reserved: ['JAX_COORDINATOR_ADDRESS', 'JAX_NUM_PROCESSES', 'JAX_PROCESS_ID'],
  opensServer: true,
  variables: (task) => ({ defaults: {}, processes: [jaxEnvironment(task)] }),
};

/**
 * Returns environment variables with the values that `jax.distributed.initialize` needs. JAX itself reads only JAX_COORDINATOR_ADDRESS, the
 * address at which process 0 runs the coordinator. For a task without a rank, returns an empty object.
 */
export function jaxEnvironment(place: GangPlace): Record<string, string> {
  const ranked = rankedMembers(place);
  const self = ownMember(ranked, place);
  const [coordinator] = ranked;
  if (self === undefined || coordinator === undefined) {
    return {};
  }
  return {
    JAX_COORDINATOR_ADDRESS: formatAddress(coordinator),
    JAX_NUM_PROCESSES: String(ranked.length),
    JAX_PROCESS_ID: String(self.taskRank),
  };
}
