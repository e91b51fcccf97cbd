import { describeExcess, excessesOf } from '../../conf/queue-maximum.ts';
import { describeShortage } from '../../conf/quota-order.ts';
import { describeAmount, type Shortage } from '../../conf/quotas.ts';
import type { LabelRoom, QueueRoom, Room } from '../../hadoop/yarn/queue-room.ts';
import { sumOf } from '../../platform/sum-of.ts';
import type { Verdict } from './job-plan.ts';
import { allows, asked, budgetsOf, type Counted, holds, isOf, MASTER, type NodeRoom, type PlannedAsk, placed, times } from './placement.ts';

export interface ClusterRoom {
  readonly user: string;
  /** Maximum resources per container. Includes every resource type in the cluster. */
  readonly largest: Room;
  /** The cluster's nodes, or null if they are unknown. */
  readonly nodes: readonly NodeRoom[] | null;
  /** The job's queue, or null if it is unknown. */
  readonly queue: QueueRoom | null;
  /** False if YARN's ACLs do not allow the user to submit to the queue. Null if it is unknown. */
  readonly maySubmit: boolean | null;
  /** Quota totals that the job would exceed, or null if the running jobs are unknown. */
  readonly shortages: readonly Shortage[] | null;
  readonly over: 'wait' | 'fail';
}

export interface Fit {
  readonly verdict: Verdict;
  /** For each role, the number of containers that fit now. Null if the numbers are unknown. */
  readonly fitNow: ReadonlyMap<string, number> | null;
}

/**
 * Determines whether a job can run now, later or never.
 * @param subject what the reasons call the job
 */
export function fitOf(wanted: readonly PlannedAsk[], room: ClusterRoom, subject = 'the job'): Fit {
  const { nodes, queue, shortages } = room;
  const asks = wanted.map((ask) => ({ ...ask, resources: roundedUp(ask.resources, queue) }));
  const needed = asks.filter(({ optional }) => !optional);
  const impossible = needed.flatMap((ask) => impossibleReasons(ask, room));
  const hopeless = impossible.length > 0 ? impossible : hopelessReasons(needed, room);
  if (hopeless.length > 0) {
    return { verdict: { type: 'impossible', reasons: hopeless }, fitNow: null };
  }
  const options = { defaultLabel: queue?.defaultLabel ?? '', counted: countedBy(room) };
  const fitNow = nodes && placed(asks, nodes, { ...options, ...(queue && { budgets: budgetsOf(queue) }) });
  const totals = (shortages ?? []).map(describeShortage);
  const refused = [...(queue === null ? [] : refusals(needed, queue, room)), ...(room.over === 'fail' ? totals : [])];
  if (refused.length > 0) {
    return { verdict: { type: 'rejected', reasons: refused }, fitNow };
  }
  const ofQueue = queue === null ? [] : queueReasons(needed, queue, { user: room.user, subject, counted: options.counted });
  const ofNodes = nodes === null ? [] : nodeReasons(needed, nodes, options, ofQueue);
  const reasons = [...ofQueue.map(({ text }) => text), ...ofNodes, ...totals];
  if (reasons.length > 0) {
    return { verdict: { type: 'waits', reasons }, fitNow };
  }
  const isKnown = nodes !== null && queue !== null && shortages !== null;
  return { verdict: { type: isKnown ? 'fits' : 'unknown' }, fitNow };
}

/** Rounds memory up to a multiple of the minimum allocation, as the ResourceManager does. */
export function roundedUp(resources: Room, queue: QueueRoom | null): Room {
  const step = queue?.memoryStep ?? 1;
  return { ...resources, memory: Math.ceil((resources.memory ?? 0) / step) * step };
}

/**
 * Returns a function that returns true for the resources that the scheduler takes into account. The default calculator considers only
 * memory. A cluster with GPUs must use a calculator that considers all resources.
 */
function countedBy({ queue, largest }: ClusterRoom): Counted {
  const all = queue?.countsAll ?? Object.keys(largest).some((name) => name !== 'memory' && name !== 'vcores');
  return all ? () => true : (resource) => resource === 'memory';
}

function impossibleReasons({ role, resources, nodeLabel }: PlannedAsk, room: ClusterRoom): string[] {
  const { largest, nodes } = room;
  const reasons = asked(resources).flatMap(([resource, amount]) => {
    const most = largest[resource];
    const setting = role === MASTER ? `master.resources.${resource}` : `roles.${role}.resources.${resource}`;
    if (most === undefined) {
      const types = Object.keys(largest).join(', ');
      return [
        `${each(role)} requests ${amount} of ${resource}, a resource type that this cluster does not have (${types}). Remove ${setting}.`,
      ];
    }
    if (amount <= most) {
      return [];
    }
    const text = `${each(role)} requests ${describeAmount(resource, amount)}`;
    return [`${text}; the largest container of this cluster has ${describeAmount(resource, most)}. Lower ${setting}.`];
  });
  if (reasons.length > 0 || nodes === null) {
    return reasons;
  }
  const counted = countedBy(room);
  // Nodes with a label may also run requests without a label.
  const candidates = nodeLabel === null ? nodes : nodes.filter(({ labels }) => labels.includes(nodeLabel));
  if (candidates.length === 0 || candidates.some(({ total }) => allows(total, resources, counted))) {
    return [];
  }
  return [`${each(role)} requests ${describeAll(resources)}; no node${labelled(nodeLabel)} has all of these. Request less.`];
}

/**
 * Describes what the queue can never provide. YARN's placement rules may move a job out of the queue `default`, so for this queue only the
 * limits of the whole cluster are certain.
 */
function hopelessReasons(needed: readonly PlannedAsk[], room: ClusterRoom): string[] {
  const { queue } = room;
  if (queue === null) {
    return [];
  }
  const containers = needed.map(({ role, instances, resources, nodeLabel }) => ({
    role: role === MASTER ? null : role,
    count: instances.min,
    resources,
    nodeLabel,
  }));
  return excessesOf(containers, queue, { counts: countedBy(room), onlyRoot: queue.path === 'root.default' }).map(describeExcess);
}

function refusals(needed: readonly PlannedAsk[], queue: QueueRoom, { user, maySubmit }: ClusterRoom): string[] {
  const { path, state, reaches } = queue;
  const barred = reaches.includes('*') ? [] : labelsOf(needed, queue).filter((label) => label !== '' && !reaches.includes(label));
  return [
    ...(state === 'RUNNING' ? [] : [`queue ${path} is ${state}`]),
    ...(maySubmit === false ? [`the ACLs of queue ${path} do not allow ${user} to submit`] : []),
    ...barred.map((label) => `queue ${path} is not allowed to use nodes labelled ${label}`),
  ];
}

function labelsOf(asks: readonly PlannedAsk[], { defaultLabel }: QueueRoom): string[] {
  return [...new Set(asks.map(({ nodeLabel }) => nodeLabel ?? defaultLabel))];
}

interface QueueReason {
  /** Resource type that is missing, or null if the reason is not a missing resource. */
  readonly resource: string | null;
  readonly text: string;
}

function queueReasons(
  needed: readonly PlannedAsk[],
  queue: QueueRoom,
  { user, subject, counted }: { readonly user: string; readonly subject: string; readonly counted: Counted },
): QueueReason[] {
  const reasons: QueueReason[] = [];
  for (const label of labelsOf(needed, queue)) {
    const room = queue.labels[label];
    if (room === undefined) {
      reasons.push({ resource: null, text: `queue ${queue.path} has no capacity on nodes labelled ${label}` });
      continue;
    }
    const asks = needed.filter(({ nodeLabel }) => (nodeLabel ?? queue.defaultLabel) === label);
    const whole = sumOf(asks.map(({ resources, instances }) => times(resources, instances.min)));
    for (const [resource, amount] of asked(whole)) {
      const text = counted(resource)
        ? (levelReason(room, `${subject} requests ${describeAmount(resource, amount)}`, { resource, amount, label }) ??
          userReason(room, queue, user, { subject, resource, amount }))
        : null;
      if (text !== null) {
        reasons.push({ resource, text });
      }
    }
    const master = asks.find(({ role }) => role === MASTER);
    const text = master === undefined ? null : masterReason(room, queue, master);
    if (text !== null) {
      reasons.push({ resource: null, text });
    }
  }
  return reasons;
}

function levelReason(
  { levels }: LabelRoom,
  asks: string,
  { resource, amount, label }: { readonly resource: string; readonly amount: number; readonly label: string },
): string | null {
  for (const { path, maximum, used } of levels) {
    const most = maximum?.[resource];
    if (most === undefined) {
      continue;
    }
    const of = `${describeAmount(resource, most)}${labelled(label)}`;
    if (amount > most) {
      return `queue ${path} is limited to ${of}, but ${asks}`;
    }
    const left = Math.max(0, most - (used[resource] ?? 0));
    if (amount > left) {
      return `queue ${path} has ${left === 0 ? 'nothing' : describeAmount(resource, left)} left of ${of}, but ${asks}`;
    }
  }
  return null;
}

function userReason(
  { user: own }: LabelRoom,
  { path }: QueueRoom,
  user: string,
  { subject, resource, amount }: { readonly subject: string; readonly resource: string; readonly amount: number },
): string | null {
  const most = own?.maximum[resource];
  const used = own?.used[resource] ?? 0;
  if (most === undefined || used + amount <= most) {
    return null;
  }
  return `${user} is limited to ${describeAmount(resource, most)} in queue ${path} and uses ${describeAmount(resource, used)}; ${subject} requests ${describeAmount(resource, amount)}`;
}

/** Returns a reason if the queue's limit for ApplicationMasters is reached. YARN always accepts a queue's first ApplicationMaster. */
function masterReason({ masters }: LabelRoom, { path, runningApplications }: QueueRoom, { resources }: PlannedAsk): string | null {
  if (masters === null || runningApplications === 0) {
    return null;
  }
  const most = masters.maximum.memory ?? Number.POSITIVE_INFINITY;
  const used = masters.used.memory ?? 0;
  if (used + (resources.memory ?? 0) <= most) {
    return null;
  }
  return `the ApplicationMasters in queue ${path} may use ${describeAmount('memory', most)} in total and already use ${describeAmount('memory', used)}`;
}

function nodeReasons(
  needed: readonly PlannedAsk[],
  nodes: readonly NodeRoom[],
  options: { readonly defaultLabel: string; readonly counted: Counted },
  queueReasons: readonly QueueReason[],
): string[] {
  if (!nodes.some(({ usable }) => usable)) {
    return ['no node is active'];
  }
  const places = placed(needed, nodes, options);
  return needed.flatMap(({ role, resources, instances, nodeLabel }): string[] => {
    const fit = places.get(role) ?? 0;
    if (fit >= instances.min) {
      return [];
    }
    const label = nodeLabel ?? options.defaultLabel;
    const candidates = nodes.filter((node) => node.usable && isOf(node, label));
    if (candidates.length === 0) {
      return [`no active node is${label === '' ? ' without a label' : labelled(label)}`];
    }
    const most = (resource: string): number => Math.max(0, ...candidates.map(({ free }) => free[resource] ?? 0));
    const short = asked(resources).filter(([name, amount]) => options.counted(name) && most(name) < amount);
    const unexplained = short.filter(([name]) => !queueReasons.some(({ resource }) => resource === name));
    if (short.length > 0) {
      return unexplained.map(([name, amount]) => {
        const best = most(name) === 0 ? 'no node has any' : `the maximum is ${describeAmount(name, most(name))}`;
        return `no node${labelled(label)} has ${describeAmount(name, amount)} free for ${role}: ${best}`;
      });
    }
    if (queueReasons.length > 0) {
      return [];
    }
    if (!candidates.some(({ free }) => holds(free, resources, options.counted))) {
      return [`no node${labelled(label)} has ${describeAll(resources)} free for ${role}`];
    }
    return [`the nodes${labelled(label)} have room for ${fit} of the ${instances.min} containers of ${role} now`];
  });
}

function each(role: string): string {
  return role === MASTER ? 'The ApplicationMaster' : `Each task of role ${role}`;
}

function labelled(label: string | null): string {
  return label === null || label === '' ? '' : ` labelled ${label}`;
}

function describeAll(resources: Room): string {
  return asked(resources)
    .map(([name, amount]) => describeAmount(name, amount))
    .join(', ');
}
