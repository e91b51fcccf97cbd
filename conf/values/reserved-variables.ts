const PREFIX = 'TONY_';

/** Variables with the prefix that users may set, because they only change how a program computes. */
const FREE: ReadonlySet<string> = new Set(['TONY_BACKEND', 'TONY_NATIVE_KERNELS']);

/** Returns true for environment variables that tony-ts sets for each task, or that a later version may set. Jobs cannot set them. */
export function isReservedVariable(name: string): boolean {
  return name.startsWith(PREFIX) && !FREE.has(name);
}
