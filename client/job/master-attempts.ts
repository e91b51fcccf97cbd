/**
 * Maximum number of ApplicationMaster attempts. With two attempts, the job survives the loss of a node, but a crashing
 * ApplicationMaster does not restart forever.
 */
export const MASTER_ATTEMPTS = 2;
