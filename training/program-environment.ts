import path from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * For glibc. Otherwise it gives large arrays back to the kernel as they are freed, and takes each step's anew, page by page: 0.5 ms a MiB
 * where the machine is virtual. A program's peak is as it was.
 */
const KEEP_FREED_MEMORY = { MALLOC_MMAP_THRESHOLD_: String(32 * 1024 ** 2), MALLOC_TRIM_THRESHOLD_: String(512 * 1024 ** 2) };

/**
 * The environment variables with which a user's program finds Node, TensorFlow.js and `tony-ts/training`.
 *
 * @param bundles absolute path of the folder that holds register.mjs and training.mjs
 * @param runtime absolute path of the unpacked runtime; null when the program runs with what the node has
 * @param environment what the program would get otherwise; what it sets itself stays
 * @returns the variables to add or replace
 */
export function programEnvironment(
  bundles: string,
  runtime: string | null,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const options = [
    environment.NODE_OPTIONS,
    `--import=${pathToFileURL(path.join(bundles, 'register.mjs')).href}`,
    // Type stripping and the hooks say at each start that they may change.
    '--disable-warning=ExperimentalWarning',
  ];
  const setItself = (name: string) => environment[name] !== undefined;
  return {
    ...(Object.keys(KEEP_FREED_MEMORY).some(setItself) ? {} : KEEP_FREED_MEMORY),
    NODE_OPTIONS: options.filter((each) => each !== undefined && each !== '').join(' '),
    // TensorFlow's own log: errors only.
    TF_CPP_MIN_LOG_LEVEL: environment.TF_CPP_MIN_LOG_LEVEL ?? '2',
    ...(runtime !== null && {
      TONY_RUNTIME: runtime,
      PATH: [path.join(runtime, 'bin'), environment.PATH ?? '/usr/local/bin:/usr/bin:/bin'].join(path.delimiter),
    }),
  };
}
