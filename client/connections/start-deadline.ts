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
    const isMissed = BEFORE_START.has(state) && performance.now() - this.#from >= this.#timeoutMs;
    const result = isMissed && !this.#isOver;
    this.#isOver ||= isMissed || !BEFORE_START.has(state);
    return result;
  }

  /** Why the job was killed, as its result reports it. */
  get reason(): string {
    return `The ApplicationMaster did not start within ${formatDuration(this.#timeoutMs)} (master.startTimeout).`;
  }
}
