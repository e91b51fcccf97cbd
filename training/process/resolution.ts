/** Sources of modules, as file URLs. Resolution from a file finds the node_modules folders beside it and above it. */
export interface Places {
  /** The training library that came with the job. */
  readonly training: string | null;
  /** A file in the container's runtime, as the starting point of resolution. */
  readonly runtime: string | null;
  /** The user's script. Modules that it can resolve take precedence over those of the container. */
  readonly program: string;
}

/** `at` is the URL of the module itself. `from` is the URL of the file to resolve from; null means the importing module. */
export type Candidate = { readonly at: string } | { readonly from: string | null };

const BARE = /^(?:@[^/]+\/)?[a-zA-Z0-9_~-][^:]*$/;
const LIBRARY = 'tony-ts';

/**
 * The candidates for a specifier, in order; the first one that resolves wins.
 *
 * - `tony-ts/training` is always the library that came with the job, because it communicates with this job's executor.
 * - Modules that the user's program can resolve win over the runtime.
 * - `@tensorflow/*`, imported by the runtime's packages or by the training library, is resolved from the user's script first, so that the
 *   process has one TensorFlow.js: the instance that the user's script imports.
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

/** The folder of tfjs-node's native addon. The package is unusable without it, and its installation may fail to build or download it. */
export function addonFolderOf(specifier: string, found: string): URL | null {
  const name = /^@tensorflow\/tfjs-node(-gpu)?$/.exec(specifier)?.[0];
  if (name === undefined) {
    return null;
  }
  const at = found.lastIndexOf(`/node_modules/${name}/`);
  return at < 0 ? null : new URL(`${found.slice(0, at)}/node_modules/${name}/lib/`);
}

/** Whether a resolution failed because the package is missing, in contrast to a broken package or an unexported path. */
export function isNotFound(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
