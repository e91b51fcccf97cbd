import type { Task } from './state/job-state.ts';
import { inGang } from './state/membership.ts';
import type { Transition } from './state/transition.ts';

/**
 * Orders all ranked tasks to store a checkpoint, because the cluster will preempt some of the job's containers, usually within a few
 * seconds. The next generation then loses only the steps after this checkpoint.
 */
export function preemptionAnnounced(transition: Transition, containerIds: readonly string[]): void {
  const announced = containerIds.flatMap((id): Task[] => {
    const slot = transition.state.byContainer.get(id);
    return slot === undefined ? [] : [transition.task(slot)];
  });
  for (const task of announced) {
    transition.recordTask('preemption-announced', task, { detail: 'the cluster is about to preempt the container' });
  }
  if (!announced.some(inGang)) {
    return;
  }
  for (const { role, state, container, generation } of transition.state.tasks) {
    if (role.ranked && state === 'running' && container !== null) {
      transition.act({ type: 'order-checkpoint', containerId: container.id, generation });
    }
  }
}
