/**
 * One of `count` shares of a dataset. Each element of the dataset belongs to only one share. This is not an interface, because TypeScript
 * accepts only type aliases as JSON.
 */
export type Share = {
  readonly index: number;
  readonly count: number;
};

export const WHOLE: Share = { index: 0, count: 1 };
