/** Thrown if one of Hadoop's credential stores cannot be read. The message names the store. */
export class CredentialStoreError extends Error {}
