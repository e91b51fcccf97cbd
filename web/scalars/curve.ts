/** A curve is drawn on a screen: more points than this nobody sees. */
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
 * One tag's values by step, ascending. Thinned as it grows: every `stride`-th value is kept, and the stride doubles whenever there are too many;
 * the newest is always there.
 */
export class Curve {
  #kept: Point[] = [];
  #newest: Point | null = null;
  #stride = 1;
  #count = 0;

  /** A step that is not beyond the newest one supersedes what was said of it and later ones: a run that was restarted, or a value said again. */
  add(step: number, time: number, value: number): void {
    const last = this.#newest;
    if (last !== null && step < last.step) this.dropFrom(step);
    const point = { step, time, value };
    const isAgain = last !== null && step === last.step;
    const isKept = isAgain ? this.#kept.at(-1) === last : this.#count % this.#stride === 0;
    if (isAgain && isKept) this.#kept.pop();
    if (isKept) this.#kept.push(point);
    if (!isAgain) this.#count++;
    this.#newest = point;
    // One place is the newest's.
    if (this.#kept.length < MAXIMUM_POINTS) return;
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#stride *= 2;
  }

  /** Answers whether there was anything. */
  dropFrom(step: number): boolean {
    if (this.#newest === null || this.#newest.step < step) return false;
    const cut = this.#kept.findIndex((point) => point.step >= step);
    if (cut >= 0) this.#kept.length = cut;
    this.#count = this.#kept.length * this.#stride;
    this.#newest = this.#kept.at(-1) ?? null;
    return true;
  }

  /** At most so many, the first and the newest among them. */
  points(maximum: number): Points {
    const every = Math.max(1, Math.ceil(this.#kept.length / Math.max(1, maximum - 1)));
    const chosen = every === 1 ? [...this.#kept] : this.#kept.filter((_, at) => at % every === 0);
    if (this.#newest !== null && chosen.at(-1) !== this.#newest) chosen.push(this.#newest);
    return {
      steps: chosen.map(({ step }) => step),
      times: chosen.map(({ time }) => time),
      values: chosen.map(({ value }) => (Number.isFinite(value) ? value : null)),
    };
  }
}
