/** A part of a log file. */
export interface LogPiece {
  readonly bytes: Uint8Array;
  /** Offset of the byte after the last one of `bytes`. */
  readonly end: number;
}
