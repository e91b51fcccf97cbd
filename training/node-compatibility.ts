import util from 'node:util';

/**
 * tfjs-node 4.22 calls two functions of node:util that Node 24 no longer has and of which Node 22 warns. CommonJS modules read them from the
 * module's object at each call, so that it is enough to put them there.
 */
export function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}
