/** The sources of modules, as file URLs. Resolution from a file searches the node_modules folders beside and above the file. */
export interface Places {
  /** The training library that came with the job. */
  readonly training: string | null;
  /** A file in the container's runtime, from which to resolve. */
  readonly runtime: string | null;
  /** The user's script. Modules that it can resolve take precedence over those of the container. */
  readonly program: string;
}

/** Either the module itself, at URL `at`, or a resolution from the file with URL `from`; null stands for the importing module. */
export type Candidate = { readonly at: string } | { readonly from: string | null };

const BARE = /^(?:@[^/]+\/)?[a-zA-Z0-9_~-][^:]*$/;
const LIBRARY = 'tony-ts';

/**
 * The candidates for a specifier, in order; the first one that resolves wins.
 *
 * - `tony-ts/training` is always the library that came with the job, because it communicates with this job's executor.
 * - Modules that the user's program can resolve take precedence over those of the runtime.
 * - `@tensorflow/*`, imported by the runtime's packages or by the training library, is resolved from the user's script first, so that the
 *   whole process uses the instance of TensorFlow.js that the user's script imports.
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
 * Returns the folder of tfjs-node's native addon; null for other packages. The package is unusable without the addon, which its
 * installation may have failed to build or download.
 */
export function addonFolderOf(specifier: string, found: string): URL | null {
  const name = /^@tensorflow\/tfjs-node(-gpu)?$/.exec(specifier)?.[0];
  if (name === undefined) {
    return null;
  }
  const at = found.lastIndexOf(`/node_modules/${name}/`);
  return at < 0 ? null : new URL(`${found.slice(0, at)}/node_modules/${name}/lib/`);
}

/** Whether a resolution failed because the package is missing, and not because it is broken or does not export the path. */
export function isNotFound(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
