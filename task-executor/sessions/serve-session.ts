import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import { type SessionStream, writeTo } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { Guard } from '../processes/guard.ts';
import { GuardedProcess } from '../processes/guarded-process.ts';
import type { SessionRun } from './session-run.ts';

/*
 * A line of /proc/net/tcp and /proc/net/tcp6 describes a socket; see proc_net_tcp(5):
 *
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ...
 *    0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 81730 ...
 *
 * An address consists of 32-bit words in hexadecimal, each in the machine's byte order. State 0A is LISTEN.
 */
interface ListeningSocket {
  /** Address on which the socket listens, in the format that node:net uses. */
  readonly host: string;
  readonly port: number;
  readonly inode: string;
}

const LISTEN = '0A';
const LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** Parses the contents of /proc/net/tcp or /proc/net/tcp6, and returns the listening sockets. */
export function parseListeningSockets(text: string): ListeningSocket[] {
  return text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === LISTEN)
    .map(([, local = '', , , , , , , , inode = '']) => {
      const [address = '', port = ''] = local.split(':');
      return { host: hostOf(address), port: Number.parseInt(port, 16), inode };
    });
}

/** Returns the sockets on which one of the processes listens. */
export function listeningSockets(pids: readonly number[]): ListeningSocket[] {
  const sockets = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => parseListeningSockets(readIfThere(file)));
  const own = new Set(pids.flatMap(socketsOf));
  return sockets.filter(({ inode }) => own.has(inode));
}

/** Returns the inodes of a process's open sockets, or an empty list if the process has exited. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((descriptor) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${descriptor}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    // The machine does not support IPv6.
    return '';
  }
}

/** Returns the address to connect to. For a socket that listens on all addresses, this is the loopback address. */
function hostOf(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  if (LITTLE_ENDIAN) {
    bytes.swap32();
  }
  if (bytes.every((byte) => byte === 0)) {
    return bytes.length === 4 ? '127.0.0.1' : '::1';
  }
  if (bytes.length === 4) {
    return bytes.join('.');
  }
  const words = Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16));
  return words.join(':');
}

/** Interval in ms at which to check whether a command that has exited is still producing output. */
const DRAIN_MS = 1_000;
const SHELL = '/bin/bash';
/** Value of PATH if a task does not set this variable. */
const DEFAULT_PATH = '/usr/bin:/bin';

type Terminal = TonyMessages['Window'] & { readonly script: string };

/** Runs a command in the program's working directory, with the program's environment. */
async function serveCommand(
  stream: SessionStream,
  command: TonyMessages['Command'],
  run: SessionRun,
  log: Logger,
): Promise<TonyMessages['SessionEnd']> {
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

function wordsOf({ words = [], terminal: wanted }: TonyMessages['Command'], terminal: Terminal | null): readonly string[] {
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
async function converse(
  stream: SessionStream,
  guarded: GuardedProcess,
  terminal: boolean,
  run: SessionRun,
): Promise<TonyMessages['SessionEnd']> {
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
function resize(pid: number, window: TonyMessages['Window']): Promise<void> {
  return new Promise((resolve) => {
    execFile('stty', ['-F', `/proc/${pid}/fd/0`, ...sizeOf(window)], { timeout: DRAIN_MS }, () => resolve());
  });
}

function sizeOf({ columns, rows }: TonyMessages['Window']): string[] {
  return ['columns', String(columns), 'rows', String(rows)];
}

const CONNECT_MS = 10_000;

/** Connects a session to a port on which one of the task's processes listens. Refuses all other ports and hosts. */
async function servePort(stream: SessionStream, port: number, { trees, task, signal }: SessionRun): Promise<TonyMessages['SessionEnd']> {
  const sockets = listeningSockets([...trees].flatMap((tree) => tree.members()));
  const socket = await connectTo(sockets.find((each) => each.port === port) ?? null, signal);
  if (typeof socket === 'string') {
    const why = sockets.some((each) => each.port === port)
      ? `The connection to port ${port} failed: ${socket}.`
      : unknownPort(task, port, sockets);
    return { reason: signal.aborted ? String(signal.reason) : why, code: 0, signal: '' };
  }
  const abort = (): void => void socket.destroy();
  signal.addEventListener('abort', abort);
  try {
    await stream.send({ opened: { terminal: false } });
    stream.receive(async ({ data, endOfData }) => {
      if (data) {
        await writeTo(socket, data.bytes);
      } else if (endOfData) {
        socket.end();
      }
    });
    const closed = once(socket, 'close').catch(() => {});
    void stream.closed.then(abort);
    await stream.sendAll('OUTPUT', socket);
    // The client may still be sending data.
    await closed;
    return { reason: signal.aborted ? String(signal.reason) : '', code: 0, signal: '' };
  } finally {
    signal.removeEventListener('abort', abort);
    socket.destroy();
  }
}

/** Returns a connection, or the reason why no connection is possible. */
async function connectTo(target: ListeningSocket | null, signal: AbortSignal): Promise<Socket | string> {
  if (target === null) {
    return 'no such port';
  }
  const socket = createConnection({ host: target.host, port: target.port, allowHalfOpen: true });
  socket.on('error', () => {});
  try {
    await once(socket, 'connect', { signal: anySignal([signal, AbortSignal.timeout(CONNECT_MS)]) });
    return socket;
  } catch (error) {
    socket.destroy();
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

function unknownPort(task: string, port: number, sockets: readonly ListeningSocket[]): string {
  const ports = [...new Set(sockets.map((each) => each.port))].sort((a, b) => a - b);
  const known = ports.length === 0 ? 'The task listens on no port.' : `The task listens on: ${ports.join(', ')}.`;
  return `No process of ${task} listens on port ${port}. ${known}`;
}

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
  { port, command }: TonyMessages['SessionRequest'],
  run: SessionRun | string,
  log: Logger,
): Promise<TonyMessages['SessionEnd']> {
  if (typeof run === 'string') {
    return over(run);
  }
  if (command) {
    return await serveCommand(stream, command, run, log);
  }
  return port === undefined ? over('The request names neither a command nor a port.') : await servePort(stream, port, run);
}

function over(reason: string): TonyMessages['SessionEnd'] {
  return { reason, code: 0, signal: '' };
}
