/** The request that a submission would send to the ResourceManager. */
export interface SubmitRequest {
  readonly method: 'POST';
  readonly url: string;
  /** The request body, with secrets replaced by `***`. */
  readonly body: Readonly<Record<string, unknown>>;
}
