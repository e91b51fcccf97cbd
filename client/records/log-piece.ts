export interface LogPiece {
  readonly bytes: Uint8Array;
  /** End of `bytes` as an offset in the file. */
  readonly end: number;
}
