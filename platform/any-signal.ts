const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * Like `AbortSignal.any`, but keeps the source signals alive. With `AbortSignal.any`, a timeout signal without other references is
 * garbage-collected and never fires.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
