/** Share number `index` of `count` shares. Each element of a dataset belongs to exactly one share. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };
