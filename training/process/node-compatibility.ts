import util from 'node:util';

/**
 * Adds two functions to node:util that tfjs-node 4.22 calls. Node.js 24 has removed them, and Node.js 22 prints a deprecation warning when
 * they are called. Assigning them to the module object is sufficient, because CommonJS modules read them from there at each call.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
