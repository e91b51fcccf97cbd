import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pause } from '../../platform/async/backoff.ts';
import type { Logger } from '../../platform/log.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import type { Command, SessionEnd, Window } from '../../protos/session-protocol.ts';
import { type SessionStream, writeTo } from '../../protos/session-stream.ts';
import { Guard } from '../processes/guard.ts';
import { GuardedProcess } from '../processes/guarded-process.ts';
import type { SessionRun } from './session-run.ts';

/** Interval in ms at which to check whether a command that has exited is still producing output. */
const DRAIN_MS = 1_000;
const SHELL = '/bin/bash';
/** Value of PATH if a task does not set this variable. */
const DEFAULT_PATH = '/usr/bin:/bin';

type Terminal = Window & { readonly script: string };

/** Runs a command in the program's working directory, with the program's environment. */
export async function serveCommand(stream: SessionStream, command: Command, run: SessionRun, log: Logger): Promise<SessionEnd> {
  const script = command.terminal ? findScript(run.environment) : null;
  const terminal = command.terminal && script !== null ? { ...command.terminal, script } : null;
  const guard = new Guard(log);
  let guarded: GuardedProcess | null = null;
  try {
    guarded = await start(wordsOf(command, terminal), terminal, run, guard);
    return await converse(stream, guarded, terminal !== null, run);
  } finally {
    guarded?.kill(false);
    guard.close();
  }
}

/**
 * Returns the path of the util-linux `script` command, or null if it is not on the task's PATH. `script` runs a command in a new terminal.
 */
function findScript({ PATH = DEFAULT_PATH }: SessionRun['environment']): string | null {
  const folders = PATH.split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  return folders.map((folder) => path.join(folder, 'script')).find((file) => existsSync(file)) ?? null;
}

function wordsOf({ words = [], terminal: wanted }: Command, terminal: Terminal | null): readonly string[] {
  const own = words.length > 0 ? words : wanted ? [SHELL, '-i'] : [SHELL];
  // Run `stty sane` to turn echo on, because `script` disables echo if its own input is not a terminal.
  return terminal === null ? own : [SHELL, '-c', `stty sane ${sizeOf(terminal).join(' ')}; exec "$@"`, SHELL, ...own];
}

function start(words: readonly string[], terminal: Terminal | null, run: SessionRun, guard: Guard): Promise<GuardedProcess> {
  return GuardedProcess.start({
    words,
    stdio: ['pipe', 'pipe', 'pipe', 'ignore'],
    folder: run.folder,
    // `script` starts the launcher with the shell that this variable names.
    environment: { ...run.environment, ...(terminal !== null && { SHELL, TERM: terminal.type || 'xterm' }) },
    guard,
    inTerminal: terminal && ((launcher) => [terminal.script, '-qefc', `exec ${launcher.map(shellWord).join(' ')}`, '/dev/null']),
  });
}

/** Relays the command's input and output until the command ends. The command is killed when the client disconnects or the program ends. */
async function converse(stream: SessionStream, guarded: GuardedProcess, terminal: boolean, run: SessionRun): Promise<SessionEnd> {
  const [stdin, stdout, stderr] = guarded.child.stdio as unknown as [Writable, Readable, Readable];
  const end = (): void => guarded.kill(true);
  run.signal.addEventListener('abort', end);
  run.trees.add(guarded.tree);
  stdin.on('error', () => {});
  void stream.closed.then(end);
  try {
    await stream.send({ opened: { terminal } });
    stream.receive(async ({ data, endOfData, window }) => {
      if (data) {
        await writeTo(stdin, data.bytes);
      } else if (endOfData) {
        stdin.end();
      } else if (window && terminal) {
        await resize(guarded.pid, window);
      }
    });
    const sent = Promise.all([stream.sendAll('OUTPUT', stdout), stream.sendAll('ERRORS', stderr)]);
    const { code, signal } = await guarded.ended;
    await drained(sent, stream, [stdout, stderr]);
    return { reason: run.signal.aborted ? String(run.signal.reason) : '', code, signal };
  } finally {
    run.signal.removeEventListener('abort', end);
    run.trees.delete(guarded.tree);
    stdout.destroy();
    stderr.destroy();
  }
}

/** Waits for the remaining output. Does not wait for a process that has left the session and keeps the pipes open. */
async function drained(sent: Promise<unknown>, stream: SessionStream, pipes: readonly Readable[]): Promise<void> {
  let isSent = false;
  const sending = sent.then(() => {
    isSent = true;
  });
  const read = (): number => pipes.reduce((sum, pipe) => sum + (pipe as Readable & { readonly bytesRead: number }).bytesRead, 0);
  for (let before = -1; !isSent && !stream.isClosed && (stream.isSending || read() > before); ) {
    before = read();
    await Promise.race([sending, stream.closed, pause(DRAIN_MS)]);
  }
}

/** Resolves when the terminal has the new size, so that sizes are applied in the order in which they arrive. */
function resize(pid: number, window: Window): Promise<void> {
  return new Promise((resolve) => {
    execFile('stty', ['-F', `/proc/${pid}/fd/0`, ...sizeOf(window)], { timeout: DRAIN_MS }, () => resolve());
  });
}

function sizeOf({ columns, rows }: Window): string[] {
  return ['columns', String(columns), 'rows', String(rows)];
}
