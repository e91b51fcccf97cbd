/** Minimum lease in ms: how long an executor keeps its program running without contact to an ApplicationMaster. */
export const LEAST_LEASE_MS = 120_000;
