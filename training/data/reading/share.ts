/** Share number `index` of `count` shares, which together contain each element of a dataset once. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };
