import type { HistoryEntry } from '../../../conf/status/status.ts';
import { next, type Revision } from './counters.ts';
import type { Action } from './events.ts';
import type { Ending, Gang, MachineState, Task, TaskContainer, TaskExecutor, TrainingReports } from './job-state.ts';

type Group = 'failures' | 'wait' | 'progress';
export type TaskChanges = Partial<Omit<Task, Group>> & { readonly [Name in Group]?: Partial<Task[Name]> };

/**
 * The changes that one step makes. Copies only the parts of the state that change, so the old state remains valid. Even in a job with
 * thousands of tasks, a heartbeat costs only one shallow array copy.
 */
export class Transition {
  readonly actions: Action[] = [];
  /** True if this step changes state that a later attempt needs. */
  dirty = false;
  /** True if this step reports a new checkpoint, which means that a new generation would not lose any progress. */
  checkpointed = false;
  /** Roles whose requests must be sent again even if the number of containers has not changed. */
  readonly askAgain = new Set<string>();
  #state: MachineState;
  #tasks: Task[] | null = null;
  #byContainer: Map<string, number> | null = null;
  #ending: Map<string, Ending> | null = null;

  constructor(state: MachineState, now: number) {
    // Ignore a clock that goes backwards, because it would postpone deadlines.
    this.#state = now > state.now ? { ...state, now } : state;
  }

  get state(): MachineState {
    return this.#state;
  }

  get now(): number {
    return this.#state.now;
  }

  get gang(): Gang | null {
    return this.#state.gang;
  }

  /** Returns the revision of the next snapshot, which will contain this step's changes. */
  get nextRevision(): Revision {
    return next(this.#state.revisions.newest);
  }

  task(slot: number): Task {
    const task = this.#state.tasks[slot];
    if (task === undefined) {
      throw new RangeError(`no task in slot ${slot}`);
    }
    return task;
  }

  patch(changes: Partial<MachineState>): void {
    this.#state = { ...this.#state, ...changes };
  }

  patchTraining(changes: Partial<TrainingReports>): void {
    this.patch({ training: { ...this.#state.training, ...changes } });
  }

  patchGang(changes: Partial<Gang>): void {
    const gang = this.#state.gang;
    if (gang !== null) {
      this.patch({ gang: { ...gang, ...changes } });
    }
  }

  /** Updates some of a task's fields. In the groups `failures`, `wait` and `progress`, omitted fields keep their values. */
  update(slot: number, changes: TaskChanges): void {
    if (this.#tasks === null) {
      this.#tasks = [...this.#state.tasks];
      this.patch({ tasks: this.#tasks });
    }
    const task = this.task(slot);
    this.#tasks[slot] = {
      ...task,
      ...changes,
      failures: { ...task.failures, ...changes.failures },
      wait: { ...task.wait, ...changes.wait },
      progress: { ...task.progress, ...changes.progress },
    };
  }

  updateContainer(slot: number, changes: Partial<TaskContainer>): void {
    const container = this.task(slot).container;
    if (container !== null) {
      this.update(slot, { container: { ...container, ...changes } });
    }
  }

  updateExecutor(slot: number, changes: Partial<TaskExecutor>): void {
    const executor = this.task(slot).executor;
    if (executor !== null) {
      this.update(slot, { executor: { ...executor, ...changes } });
    }
  }

  assign(containerId: string, slot: number): void {
    this.#containers().set(containerId, slot);
  }

  unassign(containerId: string): void {
    this.#containers().delete(containerId);
  }

  setEnding(ending: Ending): void {
    this.#endings().set(ending.containerId, ending);
  }

  deleteEnding(containerId: string): void {
    this.#endings().delete(containerId);
  }

  act(action: Action): void {
    this.actions.push(action);
  }

  record(event: string, details: Omit<HistoryEntry, 'at' | 'type'> = {}): void {
    this.act({ type: 'record', entry: { at: this.now, type: event, ...details } });
  }

  recordTask(event: string, task: Task, details: Omit<HistoryEntry, 'at' | 'type' | 'role' | 'index'> = {}): void {
    const place = task.container === null ? {} : { attempt: task.attempts, containerId: task.container.id, node: task.container.node };
    this.record(event, { role: task.role.name, index: task.index, ...place, ...details });
  }

  #containers(): Map<string, number> {
    if (this.#byContainer === null) {
      this.#byContainer = new Map(this.#state.byContainer);
      this.patch({ byContainer: this.#byContainer });
    }
    return this.#byContainer;
  }

  #endings(): Map<string, Ending> {
    if (this.#ending === null) {
      this.#ending = new Map(this.#state.ending);
      this.patch({ ending: this.#ending });
    }
    return this.#ending;
  }
}
