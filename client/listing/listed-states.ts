/** States in a job list: YARN's states before a job runs, the states that an ApplicationMaster reports, and job results. */
export const LISTED_STATES = [
  'SUBMITTED',
  'ACCEPTED',
  'STARTING',
  'WAITING',
  'RUNNING',
  'RECOVERING',
  'SUCCEEDED',
  'FAILED',
  'KILLED',
] as const;
export type ListedState = (typeof LISTED_STATES)[number];
