import { messageOf } from '../conf/errors.ts';
import type { CompiledModel } from './compiled-model.ts';
import type { StopOrder, StopOrders } from './stop-order.ts';

export interface EarlyEndOptions {
  readonly applicationId: string;
  /** This rank looks for orders, and keeps what is decided. */
  readonly keepsOrders: boolean;
  readonly onNotice: (message: string) => void;
  /** Told once, by the rank that keeps what is decided. */
  readonly onEnd: (step: number, reason: string) => void;
  readonly now?: () => number;
}

/** Between two looks for an order. */
const LOOK_MS = 2000;

/**
 * Whether training ends before its last epoch: since a callback has set `model.stopTraining` on some rank, or since an evaluator has ordered
 * it. Nobody ends alone: each rank says what it wants with each step, and after the step in which one did, all end.
 */
export class EarlyEnd {
  readonly #orders: StopOrders | null;
  readonly #options: EarlyEndOptions;
  #order: StopOrder | null = null;
  #decided = false;
  #reason = '';
  #lookedAt = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | null = null;

  /** @param orders null when there is no checkpoint folder. */
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

  /** Before the first step: an order for this application that an earlier generation has got counts, others are removed. */
  async begin(): Promise<void> {
    await this.#orders?.clear(this.#options.applicationId);
    this.#order = (await this.#orders?.read(this.#options.applicationId)) ?? null;
  }

  /** @param step the one that training would end with. */
  isWanted(model: CompiledModel, step: number): boolean {
    return model.stopTraining || (this.#order !== null && step >= (this.#order.at ?? 0));
  }

  /** @param wanted how many ranks want it. */
  decide(wanted: number, model: CompiledModel, step: number): void {
    if (wanted > 0 && !this.#decided) {
      this.#decided = true;
      this.#reason = this.#order !== null ? this.#order.reason : this.#reasonOf(model, step);
    }
  }

  #reasonOf(model: CompiledModel, step: number): string {
    return model.stopTraining ? `a callback has set model.stopTraining (step ${step})` : 'another rank has asked for it';
  }

  /** Looks for an order from time to time, without being waited for. */
  afterStep(model: CompiledModel, step: number, isAlone: boolean): void {
    if (isAlone && model.stopTraining) {
      this.decide(1, model, step);
    }
    const now = (this.#options.now ?? Date.now)();
    if (this.#orders !== null && this.#order === null && this.#look === null && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#look = this.#orders.read(this.#options.applicationId).then(
        (order) => {
          this.#order = order;
          this.#look = null;
        },
        () => {
          // Storage is away: the next look will do.
          this.#look = null;
        },
      );
    }
  }

  /** Keeps the decision for generations to come, and says it; before the last checkpoint. */
  async announce(step: number): Promise<void> {
    await this.#look;
    if (!this.#decided || !this.#options.keepsOrders) {
      return;
    }
    const { applicationId, onNotice, onEnd } = this.#options;
    onEnd(step, this.#reason);
    if (this.#orders !== null && this.#order?.at !== step) {
      try {
        await this.#orders.give({ step, ...this.#order, applicationId, reason: this.#reason, at: step });
      } catch (error) {
        onNotice(`that it ended early could not be kept: ${messageOf(error)}`);
      }
    }
  }
}
