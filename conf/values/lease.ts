/** The minimum lease (ms): how long an executor and its program keep running without an ApplicationMaster. */
export const LEAST_LEASE_MS = 120_000;
