export interface LogPiece {
  readonly bytes: Uint8Array;
  /** Offset in the file at which `bytes` ends. */
  readonly end: number;
}
