import util from 'node:util';

/**
 * Adds to node:util two functions that tfjs-node 4.22 calls. Node.js 24 removed these functions, and Node.js 22 prints a deprecation
 * warning for each call.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
