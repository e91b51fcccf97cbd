import type { Report } from '../../contract/process/task-context.ts';
import { messageOf } from '../../platform/errors.ts';
import type { StopOrder, StopOrders } from '../checkpoint/stop-order.ts';

export interface EarlyEndOptions {
  readonly jobId: string;
  readonly phase: string;
  /** True on the rank that reads stop orders from storage and stores the decision. */
  readonly keepsOrders: boolean;
  /** The reason to report if the program stopped training without giving a reason. */
  readonly cause: string;
  readonly onNotice: (message: string) => void;
  /** Called once with the decision to end early, on the rank that stores the decision. */
  readonly report: (report: Report) => void;
  readonly now?: () => number;
}

/** The interval, in ms, at which the rank checks storage for an evaluator's stop order. */
const LOOK_MS = 2000;

/**
 * Ends training before its last epoch if a callback sets `model.stopTraining` on any rank, or if an evaluator orders training to stop. In
 * each step, each rank signals whether it wants to end training. All ranks stop after the first step in which at least one rank wants to
 * stop, and report the reason of the first of these ranks.
 */
export class EarlyEnd {
  readonly #orders: StopOrders | null;
  readonly #options: EarlyEndOptions;
  #order: StopOrder | null = null;
  #decided = false;
  #reason = '';
  #wasOver = false;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | null = null;

  constructor(orders: StopOrders | null, options: EarlyEndOptions) {
    this.#orders = options.keepsOrders ? orders : null;
    this.#options = options;
  }

  get isDecided(): boolean {
    return this.#decided;
  }

  get reason(): string {
    return this.#reason;
  }

  /**
   * Reads this phase's stop order, which may be from an earlier generation. Removes other applications' stop orders. Call `begin` before
   * the first step.
   * @param ended the stored reason if the phase has already ended early, otherwise null.
   */
  async begin(ended: string | null): Promise<void> {
    if (ended !== null) {
      this.#decided = true;
      this.#wasOver = true;
      this.#reason = ended;
      return;
    }
    await this.#orders?.clear(this.#options.jobId);
    this.#order = await this.#read();
  }

  async #read(): Promise<StopOrder | null> {
    const { jobId, phase } = this.#options;
    return (await this.#orders?.read(jobId, phase)) ?? null;
  }

  /**
   * Returns this rank's reason to end training after `step`, or null to continue.
   * @param isStopped whether the program has stopped training.
   * @param why the program's own reason, or null if it gave none.
   */
  wish(isStopped: boolean, step: number, why: string | null = null): string | null {
    if (!isStopped && (this.#order === null || step < (this.#order.at ?? 0))) {
      return null;
    }
    return this.#order?.reason ?? why ?? `${this.#options.cause} (step ${step})`;
  }

  /**
   * Ends training, because at least one rank wants to end it.
   * @param reason that rank's reason, or the empty string if this rank does not know it.
   */
  decide(reason: string): void {
    if (!this.#decided) {
      this.#decided = true;
      this.#reason = reason;
    }
  }

  /**
   * Gives all ranks the same reason after the decision.
   * @param exchange sends this rank's reason to the other ranks, and returns the reason of the first rank that has one.
   */
  async shareReason(exchange: (own: string) => Promise<string>): Promise<void> {
    if (this.#wasOver) {
      return;
    }
    this.#reason = (await exchange(this.#reason)) || 'another rank requested it';
  }

  /** Ends training of a single rank, and looks for a stop order from time to time. */
  afterStep(isStopped: boolean, step: number, isAlone: boolean): void {
    if (isAlone && isStopped) {
      this.decide(this.wish(isStopped, step) ?? '');
    }
    const now = (this.#options.now ?? Date.now)();
    if (this.#orders !== null && this.#order === null && this.#look === null && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#look = this.#read().then(
        (order) => {
          this.#order = order;
          this.#look = null;
        },
        () => {
          this.#look = null;
        },
      );
    }
  }

  /** Reports the decision to end early, and stores it for later generations. Call `announce` before the last checkpoint. */
  async announce(step: number): Promise<void> {
    await this.#look;
    if (!this.#decided || !this.#options.keepsOrders) {
      return;
    }
    const { jobId, phase, onNotice, report } = this.#options;
    process.stderr.write(`tony-ts: training ends early, after step ${step}: ${this.#reason}\n`);
    report({ type: 'early-end', step, reason: this.#reason });
    if (this.#orders !== null && !this.#wasOver && this.#order?.at !== step) {
      try {
        await this.#orders.give({ step, ...this.#order, jobId, phase, reason: this.#reason, at: step });
      } catch (error) {
        onNotice(`could not record that training ends early: ${messageOf(error)}`);
      }
    }
  }
}
