import { formatDuration } from '../../conf/values/units.ts';

const BEFORE_START = new Set(['NEW', 'NEW_SAVING', 'SUBMITTED', 'ACCEPTED']);

/** The limit that `master.startTimeout` sets on the time between the submission of a job and the start of its ApplicationMaster. */
export class StartDeadline {
  readonly #timeoutMs: number;
  readonly #from = performance.now();
  #isOver = false;

  /** @param timeoutMs counted from now */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Whether the job must be killed now: true at most once, and never after the ApplicationMaster has started. */
  isMissed(state: string): boolean {
    if (this.#isOver) {
      return false;
    }
    const hasStarted = !BEFORE_START.has(state);
    const isMissed = !hasStarted && performance.now() - this.#from >= this.#timeoutMs;
    this.#isOver = hasStarted || isMissed;
    return isMissed;
  }

  /** Why the job was killed, as its result reports it. */
  get reason(): string {
    return `The ApplicationMaster did not start within ${formatDuration(this.#timeoutMs)} (master.startTimeout).`;
  }
}
