import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { SessionEnd, SessionRequest } from '../../protos/session-protocol.ts';
import type { SessionStream } from '../../protos/session-stream.ts';
import { serveCommand } from './serve-command.ts';
import { servePort } from './serve-port.ts';
import type { SessionRun } from './session-run.ts';

/** Timeout in ms for the request. The ApplicationMaster sends it immediately. */
const REQUEST_MS = 10_000;

/**
 * Serves one session until the session's command or connection ends, the program ends, or the client closes the session.
 * @param run the running program, or a sentence that explains why no program is running
 */
export async function serveSession(stream: SessionStream, run: SessionRun | string, log: Logger): Promise<void> {
  const first = await withTimeout(stream.first(), REQUEST_MS, () => null);
  if (first?.request) {
    const ended = await answer(stream, first.request, run, log).catch((error: unknown) => over(messageOf(error)));
    await stream.send({ ended });
  }
  stream.close();
}

async function answer(
  stream: SessionStream,
  { port, command }: SessionRequest,
  run: SessionRun | string,
  log: Logger,
): Promise<SessionEnd> {
  if (typeof run === 'string') {
    return over(run);
  }
  if (command) {
    return await serveCommand(stream, command, run, log);
  }
  return port === undefined ? over('The request names neither a command nor a port.') : await servePort(stream, port, run);
}

function over(reason: string): SessionEnd {
  return { reason, code: 0, signal: '' };
}
