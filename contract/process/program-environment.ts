import path from 'node:path';

/**
 * Makes glibc keep freed memory. By default, glibc returns large freed arrays to the kernel, and the next training step must fault in each
 * page again. This costs 0.5 ms per MiB on a virtual machine. Keeping the memory does not raise the program's peak memory.
 */
const KEEP_FREED_MEMORY = { MALLOC_MMAP_THRESHOLD_: String(32 * 1024 ** 2), MALLOC_TRIM_THRESHOLD_: String(512 * 1024 ** 2) };

/**
 * Returns the environment variables that let a user's program find Node.js, TensorFlow.js and `tony-ts/training`.
 * @param bundles the absolute path of the folder that contains register.mjs and training.mjs.
 * @param runtime the absolute path of the unpacked runtime, or null if the program uses the software installed on the node.
 * @param environment the program's other variables, which take precedence.
 * @returns the variables to add or replace.
 */
export function programEnvironment(
  bundles: string,
  runtime: string | null,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const options = [
    environment.NODE_OPTIONS,
    // With --import, Node.js would load the program's main file as an ES module, and tools such as ts-node would not see it.
    `--require=${quoted(path.join(bundles, 'register.mjs'))}`,
    // Suppresses warnings about type stripping and module hooks.
    '--disable-warning=ExperimentalWarning',
  ];
  const setItself = (name: string) => environment[name] !== undefined;
  return {
    ...(Object.keys(KEEP_FREED_MEMORY).some(setItself) ? {} : KEEP_FREED_MEMORY),
    NODE_OPTIONS: options.filter((each) => each !== undefined && each !== '').join(' '),
    // Limits TensorFlow's log to errors.
    TF_CPP_MIN_LOG_LEVEL: environment.TF_CPP_MIN_LOG_LEVEL ?? '2',
    ...runtimeEnvironment(runtime, environment),
  };
}

/** Quotes a word in NODE_OPTIONS. */
function quoted(word: string): string {
  return /[\s"\\]/.test(word) ? `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"` : word;
}

/** Returns the environment variables that let a program find the runtime's Node.js. */
export function runtimeEnvironment(
  runtime: string | null,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  if (runtime === null) {
    return {};
  }
  return {
    TONY_RUNTIME: runtime,
    PATH: [path.join(runtime, 'bin'), environment.PATH || '/usr/local/bin:/usr/bin:/bin'].join(path.delimiter),
  };
}
