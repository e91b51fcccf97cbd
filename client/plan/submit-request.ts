export interface SubmitRequest {
  readonly method: 'POST';
  readonly url: string;
  /** Request body, with secrets replaced with `***`. */
  readonly body: Readonly<Record<string, unknown>>;
}
