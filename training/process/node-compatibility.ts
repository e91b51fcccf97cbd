import util from 'node:util';

/**
 * Adds two functions to node:util that tfjs-node 4.22 calls. Node.js 24 no longer has these functions, and Node.js 22 prints a deprecation
 * warning for each call. tfjs-node is a CommonJS module and reads the functions from the module object at each call, so assigning them
 * there is sufficient.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
