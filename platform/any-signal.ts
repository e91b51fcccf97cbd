const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * Like `AbortSignal.any`, but keeps the source signals alive. `AbortSignal.any` does not: a timeout signal without another reference is
 * garbage-collected and never fires.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
