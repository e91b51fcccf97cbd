import { entryOf } from '../../../conf/quotas.ts';
import { TonyError } from '../../../platform/errors.ts';
import { limitSubmitters } from './access-lists.ts';
import { currentProperties } from './current-properties.ts';
import { limitCapacities } from './maximum-capacity.ts';
import { limitLabels } from './node-labels.ts';
import { noticeOthers } from './not-in-yarn.ts';
import { leafQueues, PREFIX, SchedulerDraft, type SchedulerProperty, type SchedulerView, staticQueues } from './scheduler-draft.ts';
import { limitTasks } from './task-size.ts';

export interface SchedulerConfiguration {
  readonly properties: readonly SchedulerProperty[];
  /** Limits that YARN cannot enforce, and warnings for the admin. */
  readonly notices: readonly string[];
}

/**
 * Adds the limits in the site file to the cluster's Capacity Scheduler configuration, as far as the scheduler supports them. Keeps all
 * other settings.
 * @param base current configuration, keyed by property name. If null, the configuration is reconstructed from the queues that the
 *   ResourceManager reports.
 * @throws TonyError USAGE if `base` and the cluster have different queues, if a queue's size is unknown, or if sizes cannot be expressed as
 *   amounts
 */
export function schedulerConfiguration(view: SchedulerView, base: ReadonlyMap<string, string> | null): SchedulerConfiguration {
  const draft = new SchedulerDraft(base ?? currentProperties(view.root));
  if (base === null) {
    draft.notice(
      "This file lacks settings that the ResourceManager does not report (queue mappings, preemption, locality delay, queue templates, maximum capacities that differ by resource, ...). To keep them, pass the ResourceManager's own capacity-scheduler.xml as --base.",
    );
  } else {
    refuseOtherQueues(base, view);
  }
  const keepsAmounts = view.queueMode === 'mixed' || draft.get('legacy-queue-mode.enabled') === 'false';
  const whole: SchedulerView = keepsAmounts ? { ...view, queueMode: 'mixed' } : view;
  for (const queue of staticQueues(view.root).filter(({ makesQueues }) => makesQueues)) {
    draft.notice(`YARN creates queues below ${queue.path} on first use. This file sets no limits for them.`);
  }
  const inAmounts = limitCapacities(draft, whole);
  limitLabels(draft, whole, inAmounts);
  limitTasks(draft, whole);
  limitTimes(draft, whole);
  limitSubmitters(draft, whole);
  for (const name of Object.keys(view.quotas.queues)) {
    if (name !== '*' && !leafQueues(view.root).some((queue) => queue.name === name)) {
      draft.notice(
        `quotas.queues.${name}: the cluster has no queue ${name} that accepts applications. Create it, then generate the file again.`,
      );
    }
  }
  noticeOthers(draft, view.quotas);
  return { properties: draft.properties, notices: draft.notices };
}

/**
 * Sets the maximum application lifetime of each queue to its `timeout`. YARN measures an application's lifetime from when it was submitted.
 */
function limitTimes(draft: SchedulerDraft, { quotas, root }: SchedulerView): void {
  for (const { name, path } of leafQueues(root)) {
    const found = entryOf(quotas.queues, name);
    if (found?.entry.timeout === undefined) {
      continue;
    }
    const why = `quotas.queues.${found.name}.timeout`;
    const seconds = Math.ceil(found.entry.timeout / 1000);
    draft.set(`${path}.maximum-application-lifetime`, String(seconds), why);
    // The scheduler rejects a default lifetime above the maximum lifetime.
    if (Number(draft.get(`${path}.default-application-lifetime`) ?? 0) > seconds) {
      draft.set(`${path}.default-application-lifetime`, String(seconds), why);
    }
    draft.notice(`${why}: YARN applies this limit to all kinds of applications. The time counts from submission, so it includes any wait.`);
  }
}

function refuseOtherQueues(base: ReadonlyMap<string, string>, { root }: SchedulerView): void {
  const running = new Map(
    staticQueues(root).map((queue) => [queue.path, queue.children.filter(({ dynamic }) => !dynamic).map(({ name }) => name)]),
  );
  const listed = (path: string): string[] =>
    (base.get(`${PREFIX}${path}.queues`) ?? '')
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '');
  for (const [path, names] of running) {
    const here = listed(path);
    const differing = [...here.filter((name) => !names.includes(name)), ...names.filter((name) => !here.includes(name))];
    if (differing.length === 0) {
      continue;
    }
    throw new TonyError(
      'USAGE',
      `The base file does not match the ResourceManager's configuration: the queues below ${path} differ (${differing.join(', ')}).`,
      {
        hint: "Refresh the ResourceManager's queues (yarn rmadmin -refreshQueues), or pass the file that it has loaded.",
      },
    );
  }
}
