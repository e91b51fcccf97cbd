import { constants } from 'node:os';
import { PROBE_FLAG } from '../conf/job.ts';
import { onSkippedServer } from '../hadoop/tls/skipped-servers.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import { createLogger } from '../platform/log.ts';
import { Executor } from './executor.ts';
import { EXECUTOR_ENVIRONMENT, readSettings } from './program/settings.ts';

const { env } = process;
const log = createLogger({
  container: env[EXECUTOR_ENVIRONMENT.containerId] ?? '',
  task: `${env[EXECUTOR_ENVIRONMENT.role] ?? ''}:${env[EXECUTOR_ENVIRONMENT.index] ?? ''}`,
});
let executor: Executor | null = null;

// NodeManagers send SIGKILL 250 ms after SIGTERM.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    const exitCode = 128 + constants.signals[signal];
    if (executor === null) {
      process.exit(exitCode);
    } else {
      executor.terminate(exitCode, `this container received ${signal}`);
    }
  });
}

function fail(error: unknown): never {
  const hint = error instanceof TonyError ? error.hint : undefined;
  log.fatal({ error: error instanceof Error && !(error instanceof TonyError) ? error.stack : undefined, hint }, messageOf(error));
  executor?.abandon();
  process.exit(1);
}

process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

onSkippedServer(({ message, hint }) => log.warn({ hint }, `${message} The executor uses another server.`));

try {
  if (process.argv.includes(PROBE_FLAG)) {
    const { probeNode } = await import('./probe/probe-node.ts');
    process.exit(await probeNode(env, process.cwd()));
  }
  executor = new Executor(await readSettings(env, process.cwd()), env, log);
  await executor.start();
  process.exit(await executor.left);
} catch (error) {
  fail(error);
}
