/*
 * Both counters are branded, because the job's state contains them side by side. Messages and files contain plain numbers, which
 * `asGeneration` and `asRevision` convert.
 */
declare const counted: unique symbol;

/** Counts how many times the gang has been formed. 0 before the first time. */
export type Generation = number & { readonly [counted]: 'generations' };

/** A snapshot's number, or 0 before the first snapshot. */
export type Revision = number & { readonly [counted]: 'snapshots' };

export function asGeneration(value: number): Generation {
  return value as Generation;
}

export function asRevision(value: number): Revision {
  return value as Revision;
}

export function next<Counter extends Generation | Revision>(counter: Counter): Counter {
  return (counter + 1) as Counter;
}
