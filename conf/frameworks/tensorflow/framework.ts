import { formatAddress } from '../../../platform/address.ts';
import type { Framework, FrameworkProblem } from '../framework.ts';
import type { GangPlace } from '../gang.ts';

/** Names of the roles whose tasks TF_CONFIG may list. */
export const TENSORFLOW_ROLES: readonly string[] = ['chief', 'worker', 'ps'];

export const tensorflow: Framework = {
  title: 'TensorFlow',
  programs: "Python programs that receive the framework's environment variables",
  trainingLibrary: 'never',
  reserved: ['TF_CONFIG'],
  opensServer: true,
  validate(roles) {
    return roles.flatMap(({ name, ranked, tasks }): FrameworkProblem[] => {
      if (ranked && !TENSORFLOW_ROLES.includes(name)) {
        const message = `TensorFlow recognises only tasks named ${TENSORFLOW_ROLES.join(', ')} and evaluator: rename the role, or write \`kind: independent\``;
        return [{ role: name, about: 'name', message }];
      }
      return ranked && name === 'chief' && tasks > 1
        ? [{ role: name, about: 'instances', message: 'TensorFlow allows only one chief' }]
        : [];
    });
  },
  variables: (task) => ({ defaults: {}, processes: [tensorflowEnvironment(task)] }),
};

/**
 * Returns TF_CONFIG for tf.distribute strategies. `cluster` lists the addresses of the ranked tasks by role and index, and `task` names
 * this task. An evaluator is not listed in `cluster`, but gets the same addresses.
 */
export function tensorflowEnvironment({ role, index, members }: GangPlace): Record<string, string> {
  const cluster: Record<string, string[]> = {};
  for (const member of members.filter(({ taskRank, host }) => taskRank !== null && host !== '').sort((a, b) => a.index - b.index)) {
    cluster[member.role] = [...(cluster[member.role] ?? []), formatAddress(member)];
  }
  return { TF_CONFIG: JSON.stringify({ cluster, task: { type: role, index } }) };
}
