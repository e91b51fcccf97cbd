/** One of `count` shares of a dataset. Together, the shares contain each element once. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };
