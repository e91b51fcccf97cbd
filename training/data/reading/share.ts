/** One of `count` shares of a dataset. Each element of the dataset belongs to only one share. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };
