export interface LogPiece {
  readonly bytes: Uint8Array;
  /** Offset in the file after the last byte of `bytes`. */
  readonly end: number;
}
