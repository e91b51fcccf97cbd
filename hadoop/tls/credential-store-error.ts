/** Thrown if a store of one of Hadoop's credential providers cannot be read. The message names the store. */
export class CredentialStoreError extends Error {}
