const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * Like `AbortSignal.any`, but also keeps a reference to each source signal. Otherwise, a timeout signal that has no other references would
 * be garbage-collected and never abort.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
