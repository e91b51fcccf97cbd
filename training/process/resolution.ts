/** The sources of modules, as file URLs. Resolution from a file searches node_modules in the file's folder and all parent folders. */
export interface Places {
  /** The training library that the job shipped. */
  readonly training: string | null;
  /** A file in the container's runtime from which to resolve. */
  readonly runtime: string | null;
  /** The user's script. Modules that the script can resolve take precedence over modules of the container. */
  readonly program: string;
}

/**
 * Either `at`, the URL of the module itself, or `from`, the URL of the file from which to resolve the specifier; null for the importing
 * module.
 */
export type Candidate = { readonly at: string } | { readonly from: string | null };

const BARE = /^(?:@[^/]+\/)?[a-zA-Z0-9_~-][^:]*$/;
const LIBRARY = 'tony-ts';

/**
 * Returns the candidates for a specifier, in order of precedence.
 *
 * - `tony-ts/training` is always the library that the job shipped, because the library communicates with this job's executor.
 * - Modules that the user's program can resolve take precedence over modules of the runtime.
 * - When the runtime's packages or the training library import `@tensorflow/*`, it is resolved from the user's script first. The whole
 *   process then uses the instance of TensorFlow.js that the user's script imports.
 */
export function candidates(specifier: string, parent: string | undefined, places: Places): readonly Candidate[] {
  const byDefault: Candidate = { from: null };
  if (!BARE.test(specifier)) {
    return [byDefault];
  }
  if (specifier === `${LIBRARY}/training` && places.training !== null) {
    return [{ at: places.training }];
  }
  const last: Candidate[] = places.runtime === null ? [] : [{ from: places.runtime }];
  if (specifier === LIBRARY && places.training !== null) {
    return [byDefault, ...last, { at: places.training }];
  }
  if (specifier.startsWith('@tensorflow/') && isOurs(parent, places)) {
    return [{ from: places.program }, byDefault, ...last];
  }
  return [byDefault, ...last];
}

function isOurs(parent: string | undefined, places: Places): boolean {
  if (parent === undefined) {
    return false;
  }
  return parent === places.training || (places.runtime !== null && parent.startsWith(new URL('.', places.runtime).href));
}

/**
 * Returns the folder of tfjs-node's native addon; null for other packages. tfjs-node is unusable without the addon, and its installation
 * may have failed to download or build the addon.
 */
export function addonFolderOf(specifier: string, found: string): URL | null {
  const name = /^@tensorflow\/tfjs-node(-gpu)?$/.exec(specifier)?.[0];
  if (name === undefined) {
    return null;
  }
  const at = found.lastIndexOf(`/node_modules/${name}/`);
  return at < 0 ? null : new URL(`${found.slice(0, at)}/node_modules/${name}/lib/`);
}

/** Whether a resolution failed because the package is missing. A package that is broken or does not export the path gives other errors. */
export function isNotFound(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
