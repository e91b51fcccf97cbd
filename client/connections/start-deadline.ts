import { formatDuration } from '../../conf/values/units.ts';

const BEFORE_START = new Set(['NEW', 'NEW_SAVING', 'SUBMITTED', 'ACCEPTED']);

/** Limits how long a job's ApplicationMaster may take to start after the job is submitted, as set by `master.startTimeout`. */
export class StartDeadline {
  readonly #timeoutMs: number;
  readonly #from = performance.now();
  #isOver = false;

  /** @param timeoutMs time limit, measured from this call */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Returns true once, when the ApplicationMaster has not started within the time limit. The caller then kills the job. */
  isMissed(state: string): boolean {
    if (this.#isOver) {
      return false;
    }
    const hasStarted = !BEFORE_START.has(state);
    const isMissed = !hasStarted && performance.now() - this.#from >= this.#timeoutMs;
    this.#isOver = hasStarted || isMissed;
    return isMissed;
  }

  get reason(): string {
    return `The ApplicationMaster did not start within ${formatDuration(this.#timeoutMs)} (master.startTimeout).`;
  }
}
