/*
 * Node.js loads this file before the user's program (`node --require …/register.mjs`, see program-environment.ts). It makes `import` and
 * `require` find the container's runtime and the training library, regardless of the program's folder. resolution.ts defines the order of
 * precedence.
 *
 * Node.js 22.15 and later provide hooks for both `import` and `require`. Older versions run the `import` hooks in a separate thread, which
 * loads this file again with the suffix `?hooks`. For `require`, this file replaces the Node.js function that resolves file names.
 */
import { appendFileSync, existsSync, readFileSync, realpathSync } from 'node:fs';
import Module, { createRequire, type ResolveFnOutput, type ResolveHook, type ResolveHookContext } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import util from 'node:util';
import { addonFolderOf, candidates, isNotFound, type Places } from './resolution.ts';

/**
 * Defines the `isNullOrUndefined` and `isArray` functions in node:util, because tfjs-node 4.22 calls them. Node.js 24 removed them, and
 * Node.js 22 prints a deprecation warning when they are called.
 */
function restoreUtilFunctions(): void {
  Object.assign(util, {
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isArray: Array.isArray,
  });
}

const HOOKS_THREAD = '?hooks';

let places: Places;

if (!import.meta.url.endsWith(HOOKS_THREAD)) {
  places = findPlaces();
  restoreUtilFunctions();
  install();
  process.on('uncaughtExceptionMonitor', reportFailedLoad);
}

/** Reports that a module is missing or cannot be parsed, because a restart of the program would repeat the failure. */
function reportFailedLoad(error: unknown): void {
  const taskFile = process.env.TONY_TASK_FILE;
  if (taskFile === undefined || !isFailedLoad(error)) {
    return;
  }
  try {
    const { reportFile } = JSON.parse(readFileSync(taskFile, 'utf8')) as { readonly reportFile: string };
    appendFileSync(reportFile, `${JSON.stringify({ type: 'permanent-failure' })}\n`);
  } catch {
    // Without the report, the program restarts as after any other failure.
  }
}

const MISSING = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'];
/** First frame of the stack of a SyntaxError that the module loader throws. `JSON.parse` and others also throw SyntaxErrors. */
const LOADER_FRAME = /^[^\n]*\(node:internal\/modules\//;

function isFailedLoad(error: unknown): boolean {
  if (!(error instanceof Error)) {
    return false;
  }
  const { code } = error as { readonly code?: unknown };
  const frames = error.stack?.split(/\n {4}at /)[1] ?? '';
  return MISSING.includes(String(code)) || (error instanceof SyntaxError && LOADER_FRAME.test(frames));
}

function findPlaces(): Places {
  const training = path.join(path.dirname(fileURLToPath(import.meta.url)), 'training.mjs');
  // process.execPath is …/runtime/bin/node if the program runs on the runtime's Node.js.
  const runtime = process.env.TONY_RUNTIME || path.dirname(path.dirname(process.execPath));
  const script = process.argv[1];
  const program = script !== undefined && existsSync(script) ? realpathSync(script) : path.join(process.cwd(), 'program.js');
  return {
    training: existsSync(training) ? pathToFileURL(realpathSync(training)).href : null,
    runtime: existsSync(path.join(runtime, 'node_modules')) ? pathToFileURL(path.join(realpathSync(runtime), 'runtime.js')).href : null,
    program: pathToFileURL(program).href,
  };
}

type NextResolve = (specifier: string, context?: Partial<ResolveHookContext>) => ResolveFnOutput;

interface HooksInThread {
  registerHooks?: (hooks: { resolve: (specifier: string, context: ResolveHookContext, next: NextResolve) => ResolveFnOutput }) => void;
}

/**
 * The internal Node.js function that resolves the argument to `require` to a file. It has no type declarations, but many tools replace it.
 */
interface FileResolver {
  _resolveFilename(request: string, parent: { filename?: string | null } | null | undefined, ...rest: unknown[]): string;
}

function install(): void {
  const { registerHooks } = Module as HooksInThread;
  if (registerHooks !== undefined) {
    registerHooks({
      resolve: (specifier, context, next) =>
        firstFound(specifier, context.parentURL, (from) => {
          if (from === null) {
            return next(specifier);
          }
          // For `require`, Node.js ignores the context and resolves from the importing module.
          return context.conditions.includes('require')
            ? { url: required(specifier, from) }
            : next(specifier, { ...context, parentURL: from });
        }),
    });
    return;
  }
  Module.register(`${import.meta.url}${HOOKS_THREAD}`, { data: places });
  const resolver = Module as unknown as FileResolver;
  const byDefault = resolver._resolveFilename;
  resolver._resolveFilename = function (request, parent, ...rest) {
    const parentUrl = parent?.filename ? pathToFileURL(parent.filename).href : undefined;
    let builtin: string | null = null;
    const { url } = firstFound(request, parentUrl, (from) => {
      if (from !== null) {
        return { url: required(request, from) };
      }
      const filename = byDefault.call(this, request, parent, ...rest);
      if (!path.isAbsolute(filename)) {
        builtin = filename;
      }
      return { url: path.isAbsolute(filename) ? pathToFileURL(filename).href : filename };
    });
    return builtin ?? fileURLToPath(url);
  };
}

let withinRequired = false;

/** Resolves a specifier from the file `from`, as `require` would do without these hooks. */
function required(specifier: string, from: string): string {
  withinRequired = true;
  try {
    return pathToFileURL(createRequire(from).resolve(specifier)).href;
  } finally {
    withinRequired = false;
  }
}

function firstFound(specifier: string, parent: string | undefined, lookUp: (from: string | null) => ResolveFnOutput): ResolveFnOutput {
  if (withinRequired) {
    return lookUp(null);
  }
  let missing: unknown;
  let unusable: ResolveFnOutput | undefined;
  for (const candidate of candidates(specifier, parent, places)) {
    if ('at' in candidate) {
      return { url: candidate.at, shortCircuit: true };
    }
    try {
      const found = { ...lookUp(candidate.from), shortCircuit: true };
      if (isUsable(specifier, found.url)) {
        return found;
      }
      unusable ??= found;
    } catch (error) {
      if (!isNotFound(error)) {
        throw error;
      }
      missing = noteMissing(missing, candidate.from, error);
    }
  }
  if (unusable !== undefined) {
    return unusable;
  }
  throw missing;
}

/**
 * Chooses the error to throw if no candidate resolves. Prefers the default resolution's error, because it describes the user's own import.
 */
function noteMissing(before: unknown, from: string | null, error: unknown): unknown {
  return before === undefined || from === null ? error : before;
}

function isUsable(specifier: string, url: string): boolean {
  const addon = addonFolderOf(specifier, url);
  return addon === null || existsSync(addon);
}

/** The resolve hook for Node.js versions before 22.15, which call it in the hooks thread. */
export function initialize(data: Places): void {
  places = data;
}

export const resolve: ResolveHook = async (specifier, context, next) => {
  let missing: unknown;
  let unusable: ResolveFnOutput | undefined;
  for (const candidate of candidates(specifier, context.parentURL, places)) {
    if ('at' in candidate) {
      return { url: candidate.at, shortCircuit: true };
    }
    try {
      const where = candidate.from === null ? context : { ...context, parentURL: candidate.from };
      const found = { ...(await next(specifier, where)), shortCircuit: true };
      if (isUsable(specifier, found.url)) {
        return found;
      }
      unusable ??= found;
    } catch (error) {
      if (!isNotFound(error)) {
        throw error;
      }
      missing = noteMissing(missing, candidate.from, error);
    }
  }
  if (unusable !== undefined) {
    return unusable;
  }
  throw missing;
};
