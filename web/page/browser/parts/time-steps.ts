/** Round intervals between ticks on a time axis, in seconds. */
export const TIME_STEPS: readonly number[] = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/** Returns round times from 0 to `seconds`, with at most `most` ticks after the first. Short ranges have ticks at tenths of a second. */
export function timeMarks(seconds: number, most: number): number[] {
  const step = [0.1, 0.2, 0.5, ...TIME_STEPS].find((each) => seconds / each <= most) ?? seconds / most;
  return Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, index) => Number((index * step).toFixed(3)));
}
