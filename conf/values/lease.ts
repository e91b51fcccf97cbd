/** The minimum lease (ms): how long an executor and its program continue without their ApplicationMaster. */
export const LEAST_LEASE_MS = 120_000;
