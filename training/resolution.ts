/** Where modules may come from, as URLs; what lies beside an anchor's file in node_modules (or above it) is found from it. */
export interface Places {
  /** The training library that came with the job. */
  readonly training: string | null;
  /** An anchor inside the container's runtime. */
  readonly runtime: string | null;
  /** The user's script: what it finds comes before what the container brings. */
  readonly program: string;
}

/** `at` is a module itself; `from` says to look for the specifier as a module there would; null: as the importing module does. */
export type Candidate = { readonly at: string } | { readonly from: string | null };

const BARE = /^(?:@[^/]+\/)?[a-zA-Z0-9_~-][^:]*$/;
const LIBRARY = 'tony-ts';

/**
 * The places in which a specifier is looked for, in order; the first that has it wins.
 *
 * - `tony-ts/training` is always the one that came with the job: it speaks with this job's executor.
 * - What the user's program finds by itself wins over the runtime.
 * - `@tensorflow/*` imported by the runtime's packages or by the training library is looked for from the user's script first: there is one
 *   TensorFlow.js in a process, the one that the user's script sees.
 */
export function candidates(specifier: string, parent: string | undefined, places: Places): readonly Candidate[] {
  const byDefault: Candidate = { from: null };
  if (!BARE.test(specifier)) return [byDefault];
  if (specifier === `${LIBRARY}/training` && places.training !== null) return [{ at: places.training }];
  const last: Candidate[] = places.runtime === null ? [] : [{ from: places.runtime }];
  if (specifier === LIBRARY && places.training !== null) return [byDefault, ...last, { at: places.training }];
  if (specifier.startsWith('@tensorflow/') && isOurs(parent, places)) return [{ from: places.program }, byDefault, ...last];
  return [byDefault, ...last];
}

function isOurs(parent: string | undefined, places: Places): boolean {
  if (parent === undefined) return false;
  return parent === places.training || (places.runtime !== null && parent.startsWith(new URL('.', places.runtime).href));
}

/** The package without which the one that was found is of no use: tfjs-node installed where its addon could not be built or downloaded. */
export function addonFolderOf(specifier: string, found: string): URL | null {
  const name = /^@tensorflow\/tfjs-node(-gpu)?$/.exec(specifier)?.[0];
  if (name === undefined) return null;
  const at = found.lastIndexOf(`/node_modules/${name}/`);
  return at < 0 ? null : new URL(`${found.slice(0, at)}/node_modules/${name}/lib/`);
}

/** Whether a failed resolution means that there is no such package, and not that it is broken or hides what was asked for. */
export function isNotFound(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
