import type { ScalarSeries } from '../job-view.ts';

/** The maximum number of points in a curve. More points would not be visible on a screen. */
export const MAXIMUM_POINTS = 500;

interface Point {
  readonly step: number;
  readonly time: number;
  readonly value: number;
}

/**
 * The values of one tag, in ascending step order. A growing curve is thinned: it keeps every `stride`-th value, and the stride doubles when
 * the curve has too many points. The newest value is always included.
 */
export class Curve {
  #kept: Point[] = [];
  #newest: Point | null = null;
  #stride = 1;
  #count = 0;

  /**
   * Adds a value. If `step` is not greater than the newest step, the value replaces the values of this and all later steps. This happens
   * when a run has restarted or has written a value again.
   */
  add(step: number, time: number, value: number): void {
    const last = this.#newest;
    if (last !== null && step < last.step) {
      this.dropFrom(step);
    }
    const point = { step, time, value };
    const isAgain = last !== null && step === last.step;
    const isKept = isAgain ? this.#kept.at(-1) === last : this.#count % this.#stride === 0;
    if (isAgain && isKept) {
      this.#kept.pop();
    }
    if (isKept) {
      this.#kept.push(point);
    }
    if (!isAgain) {
      this.#count++;
    }
    this.#newest = point;
    // One point is reserved for the newest value.
    if (this.#kept.length < MAXIMUM_POINTS) {
      return;
    }
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#stride *= 2;
  }

  /** Removes the values of `step` and all later steps. Returns whether any value was removed. */
  dropFrom(step: number): boolean {
    if (this.#newest === null || this.#newest.step < step) {
      return false;
    }
    const cut = this.#kept.findIndex((point) => point.step >= step);
    if (cut >= 0) {
      this.#kept.length = cut;
    }
    this.#count = this.#kept.length * this.#stride;
    this.#newest = this.#kept.at(-1) ?? null;
    return true;
  }

  /** Returns at most `maximum` points, including the first and the newest point. */
  points(maximum: number): Omit<ScalarSeries, 'tag'> {
    const every = Math.max(1, Math.ceil(this.#kept.length / Math.max(1, maximum - 1)));
    const chosen = every === 1 ? [...this.#kept] : this.#kept.filter((_, at) => at % every === 0);
    if (this.#newest !== null && chosen.at(-1) !== this.#newest) {
      chosen.push(this.#newest);
    }
    return {
      steps: chosen.map(({ step }) => step),
      times: chosen.map(({ time }) => time),
      values: chosen.map(({ value }) => (Number.isFinite(value) ? value : null)),
    };
  }
}
