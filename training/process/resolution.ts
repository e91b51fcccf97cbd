/** File URLs from which to resolve modules. Node.js searches `node_modules` in the file's folder and in all parent folders. */
export interface Places {
  readonly training: string | null;
  /** A file in the container's runtime. */
  readonly runtime: string | null;
  /** The user's script. Modules that the script can resolve take precedence over the container's modules. */
  readonly program: string;
}

/** `at` is the URL of the resolved module. `from` is the file from which to resolve the specifier, or null for the importing module. */
type ModuleCandidate = { readonly at: string } | { readonly from: string | null };

const BARE = /^(?:@[^/]+\/)?[a-zA-Z0-9_~-][^:]*$/;
const LIBRARY = 'tony-ts';

/**
 * Returns the candidates for a specifier, in order of precedence.
 *
 * - `tony-ts/training` is always the library that the job ships, because this library communicates with the job's executor.
 * - Modules that the user's program can resolve take precedence over the runtime's modules.
 * - If the runtime or the training library imports `@tensorflow/*`, the specifier is first resolved from the user's script, so the whole
 *   process uses the same instance of TensorFlow.js as the user's script.
 */
export function candidates(specifier: string, parent: string | undefined, places: Places): readonly ModuleCandidate[] {
  const byDefault: ModuleCandidate = { from: null };
  if (!BARE.test(specifier)) {
    return [byDefault];
  }
  if (specifier === `${LIBRARY}/training` && places.training !== null) {
    return [{ at: places.training }];
  }
  const last: ModuleCandidate[] = places.runtime === null ? [] : [{ from: places.runtime }];
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
 * Returns the folder that contains tfjs-node's native addon, or null for other packages. The addon is missing if it could neither be
 * downloaded nor built when tfjs-node was installed. tfjs-node cannot be used without the addon.
 */
export function addonFolderOf(specifier: string, found: string): URL | null {
  const name = /^@tensorflow\/tfjs-node(-gpu)?$/.exec(specifier)?.[0];
  if (name === undefined) {
    return null;
  }
  const at = found.lastIndexOf(`/node_modules/${name}/`);
  return at < 0 ? null : new URL(`${found.slice(0, at)}/node_modules/${name}/lib/`);
}

/** Returns true if the package is missing. Broken packages, and packages that do not export the path, cause other errors. */
export function isNotFound(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
