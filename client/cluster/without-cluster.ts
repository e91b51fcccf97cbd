import { ERROR_CODES, TonyError } from '../../platform/errors.ts';

/** Error handler of a library function with the option `local`: without a cluster, the option is the next step. */
export function suggestLocal(error: unknown): never {
  throw withLocalHint(error, 'pass the option { local: true } to use this machine');
}

/**
 * Replaces the hint of an error that says that no cluster is configured. Returns other errors as they are.
 * @param advice how to use this machine instead, or null if that is not possible
 */
export function withLocalHint(error: unknown, advice: string | null): unknown {
  const code = 'HADOOP_CONF_NOT_FOUND';
  if (!(error instanceof TonyError) || error.code !== code) {
    return error;
  }
  const { hint } = ERROR_CODES[code];
  return new TonyError(code, error.message, { hint: advice === null ? hint : `${hint} Without a cluster, ${advice}.`, cause: error });
}

/** Whether the options or the environment name a cluster, perhaps a wrong one. */
export function namesCluster({
  resourceManager,
  env = process.env,
}: {
  readonly resourceManager?: string | undefined;
  readonly env?: NodeJS.ProcessEnv;
}): boolean {
  return resourceManager !== undefined || Boolean(env.HADOOP_CONF_DIR) || Boolean(env.HADOOP_HOME);
}
