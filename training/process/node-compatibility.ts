import util from 'node:util';

/**
 * Adds two functions of node:util that tfjs-node 4.22 calls: Node.js 24 has removed them, and Node.js 22 prints a deprecation warning for
 * them. CommonJS modules read them from the module object at each call, so it is enough to assign them there.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
