const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * As AbortSignal.any, whose result does not keep alive what it is made of: there a timeout to which nothing else refers is collected as garbage
 * and never fires.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
