import util from 'node:util';

/**
 * Defines the `isNullOrUndefined` and `isArray` functions in node:util, because tfjs-node 4.22 calls them. Node.js 24 removed them, and
 * Node.js 22 prints a deprecation warning when they are called.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
