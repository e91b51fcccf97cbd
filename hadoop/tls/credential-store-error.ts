/** Thrown if a store of Hadoop's credential providers cannot be read. The message names the store. */
export class CredentialStoreError extends Error {}
