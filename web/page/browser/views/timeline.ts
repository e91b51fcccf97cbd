import { describeEntry } from '../../../../conf/status/event-text.ts';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { type HistoryEntry, isTaskOver } from '../../../../conf/status/status.ts';
import { nameOf } from './task-table.ts';

/**
 * `requested`: the task is waiting for a container. `launching`: the container is allocated, but its executor has not registered.
 * `registered`: the executor is waiting for the gang. `running`: the program is running in one generation.
 */
export type TimelinePhase = 'requested' | 'launching' | 'registered' | 'running';

export interface TaskSpan {
  readonly phase: TimelinePhase;
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
  readonly generation: number | null;
  /** The number of the task's container, starting at 1. */
  readonly attempt: number;
  readonly node: string | null;
  readonly containerId: string | null;
  readonly open: boolean;
}

export interface End {
  readonly at: number;
  readonly outcome: 'succeeded' | 'failed' | 'stopped';
  readonly text: string;
}

export interface TaskTimeline {
  readonly task: string;
  /** Spans and ends, in event order. Their times do not determine this order, because several events may have the same time. */
  readonly steps: readonly (TaskSpan | End)[];
  readonly spans: readonly TaskSpan[];
  readonly ends: readonly End[];
}

export interface Moment {
  readonly at: number;
  readonly text: string;
}

export interface Timeline {
  readonly from: number;
  readonly to: number;
  readonly tasks: readonly TaskTimeline[];
  /** Generation starts, ApplicationMaster registrations, lost nodes, and the end of the job. */
  readonly moments: readonly Moment[];
}

export function isSpan(step: TaskSpan | End): step is TaskSpan {
  return 'phase' in step;
}

interface Lane {
  readonly steps: (TaskSpan | End)[];
  attempt: number;
  current: Omit<TaskSpan, 'to' | 'open'> | null;
}

/** Reconstructs each task's phases from the job's events. Spans that have not ended extend to `now`. */
export function timelineOf(entries: readonly HistoryEntry[], status: JobInfo, now: number): Timeline {
  const startedAt = status.startedAt ?? entries[0]?.at ?? 0;
  const lanes = new Map<string, Lane>(status.tasks.map((task) => [nameOf(task), newLane()]));
  const moments: Moment[] = [];
  const until = status.finishedAt ?? Math.max(now, entries.at(-1)?.at ?? 0, startedAt);
  let masters = 0;

  for (const entry of entries) {
    const { at, type } = entry;
    if (type === 'master-registered') {
      moments.push({ at, text: masters === 0 ? 'ApplicationMaster registered' : 'ApplicationMaster restarted' });
      masters++;
    } else if (type === 'generation-started') {
      moments.push({ at, text: `generation ${entry.generation ?? '?'} started${entry.reason === undefined ? '' : `: ${entry.reason}`}` });
    } else if (type === 'node-lost') {
      moments.push({ at, text: `node ${entry.node ?? '?'} lost` });
    } else if (type === 'tokens-ending') {
      moments.push({ at, text: 'the delegation tokens will expire soon' });
    } else if (type === 'job-finished') {
      moments.push({ at, text: 'job ended' });
      for (const lane of lanes.values()) {
        stop(lane, at);
      }
    }
    if (entry.role === undefined || entry.index === undefined) {
      continue;
    }
    const task = `${entry.role}:${entry.index}`;
    const lane = lanes.get(task) ?? newLane();
    lanes.set(task, lane);
    follow(lane, entry);
  }

  return {
    from: Math.min(startedAt, entries[0]?.at ?? startedAt),
    to: Math.max(until, startedAt + 1),
    tasks: [...lanes].map(([task, lane]) => {
      leave(lane, until, isActive(status, task));
      const { steps } = lane;
      return { task, steps, spans: steps.filter(isSpan), ends: steps.filter((step): step is End => !isSpan(step)) };
    }),
    moments,
  };
}

function newLane(): Lane {
  return { steps: [], attempt: 0, current: null };
}

function follow(lane: Lane, entry: HistoryEntry): void {
  const { at, type } = entry;
  switch (type) {
    case 'task-requested':
      // If the task is already waiting for a container, another request does not start a new span.
      if (lane.current === null) {
        enter(lane, 'requested', entry);
      }
      return;
    case 'container-allocated':
      lane.attempt = entry.attempt ?? lane.attempt + 1;
      enter(lane, 'launching', entry);
      return;
    case 'executor-registered':
      // After the ApplicationMaster restarts, a running task's executor registers again. The task remains in its phase.
      if (lane.current?.phase !== 'running') {
        enter(lane, entry.program === 'running' ? 'running' : 'registered', entry);
      }
      return;
    case 'program-started':
      enter(lane, 'running', entry);
      return;
    case 'program-stopped':
      enter(lane, 'registered', entry);
      return;
    case 'task-stopped':
      stop(lane, at, describeEntry(entry));
      return;
    case 'program-ended':
      leave(lane, at);
      if (entry.exit?.code === 0) {
        lane.steps.push({ at, outcome: 'succeeded', text: describeEntry(entry) });
      }
      return;
    case 'task-failed':
      leave(lane, at);
      lane.steps.push({ at, outcome: 'failed', text: describeEntry(entry) });
      return;
    case 'container-ended':
      // A failed task's container often ends only after the replacement container has been allocated.
      if (lane.current?.containerId === entry.containerId) {
        leave(lane, at);
      }
      return;
  }
}

function enter(lane: Lane, phase: TimelinePhase, { at, generation, node, containerId }: HistoryEntry): void {
  const before = lane.current;
  leave(lane, at);
  const inContainer = phase !== 'requested';
  lane.current = {
    phase,
    from: at,
    attempt: inContainer ? Math.max(1, lane.attempt) : lane.attempt + 1,
    generation: phase === 'running' ? (generation ?? null) : null,
    node: inContainer ? (node ?? before?.node ?? null) : null,
    containerId: inContainer ? (containerId ?? before?.containerId ?? null) : null,
  };
}

function leave(lane: Lane, at: number, open = false): void {
  const { current } = lane;
  if (current === null) {
    return;
  }
  lane.steps.push({ ...current, to: Math.max(at, current.from), open });
  lane.current = null;
}

/** Ends the current span. If the task has a container, marks the task as stopped. */
function stop(lane: Lane, at: number, text = 'the job had ended'): void {
  const { current } = lane;
  leave(lane, at);
  if (current !== null && current.phase !== 'requested') {
    lane.steps.push({ at, outcome: 'stopped', text });
  }
}

function isActive({ tasks, finishedAt }: JobInfo, name: string): boolean {
  const task = tasks.find((each) => nameOf(each) === name);
  return finishedAt === null && task !== undefined && !isTaskOver(task.state);
}
