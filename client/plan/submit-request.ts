/** The request that a submission would send to the ResourceManager. */
export interface SubmitRequest {
  readonly method: 'POST';
  readonly url: string;
  /** Secrets are replaced by `***`. */
  readonly body: Readonly<Record<string, unknown>>;
}
