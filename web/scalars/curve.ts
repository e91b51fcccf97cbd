/** More points are not visible on a screen. */
export const MAXIMUM_POINTS = 500;

export interface Points {
  readonly steps: readonly number[];
  readonly times: readonly number[];
  readonly values: readonly (number | null)[];
}

interface Point {
  readonly step: number;
  readonly time: number;
  readonly value: number;
}

/**
 * The values of one tag, ascending by step. Thinned as it grows: keeps every `stride`-th value and doubles the stride when there are too
 * many points; always includes the newest value.
 */
export class Curve {
  #kept: Point[] = [];
  #newest: Point | null = null;
  #stride = 1;
  #count = 0;

  /**
   * A step that is not greater than the newest one replaces the values of that and all later steps: a run was restarted or a value was
   * repeated.
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
    // Leaves one place for the newest value.
    if (this.#kept.length < MAXIMUM_POINTS) {
      return;
    }
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#stride *= 2;
  }

  /** Removes the values from `step` on. Returns whether any value was removed. */
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

  /** Returns at most `maximum` points, including the first and the newest. */
  points(maximum: number): Points {
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
