/** Maximum number of ApplicationMaster attempts. A second attempt lets the job survive the loss of a node. */
export const MASTER_ATTEMPTS = 2;
