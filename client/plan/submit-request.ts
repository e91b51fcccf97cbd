export interface SubmitRequest {
  readonly method: 'POST';
  readonly url: string;
  /** Request body, in which `***` replaces secrets. */
  readonly body: Readonly<Record<string, unknown>>;
}
