import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';

/**
 * The guard's script. The script reads process group IDs from standard input, one per line, and acknowledges each with an empty line. Its
 * input is closed when the executor exits. The script then kills the process group that it read last, all other processes in the same
 * session, and all processes with the environment variable that follows the group in the line. The session ID is field 6 of /proc/PID/stat. The guard has its own session, so signals to the executor's process group do not
 * reach it.
 */
const SCRIPT = `trap '' PIPE
group= marker=
while read -r line word; do group=$line; marker=$word; echo; done
[ -n "$group" ] || exit 0
exec 2>/dev/null
kill -KILL -- "-$group"
for file in /proc/[0-9]*/stat; do
  read -r line <"$file" || continue
  set -- \${line##*) }
  if [ "$4" = "$group" ]; then pid=\${file#/proc/}; kill -KILL "\${pid%/stat}"; fi
done
[ -n "$marker" ] || exit 0
for file in /proc/[0-9]*/environ; do
  pid=\${file#/proc/}; pid=\${pid%/environ}
  while IFS= read -r -d '' variable; do
    if [ "$variable" = "$marker" ]; then kill -KILL "$pid"; break; fi
  done <"$file"
done`;
const PAUSE_MS = 100;

/**
 * Kills the user's processes when this process exits for any reason. A small helper process detects that this process has exited when the
 * pipe between them closes.
 */
export class Guard {
  readonly #log: Logger;
  #process: ChildProcess;
  #group = '';
  #closed = false;
  /** Allows only one write at a time, because the guard acknowledges each write with one line. */
  #updating: Promise<void> = Promise.resolve();

  constructor(log: Logger) {
    this.#log = log;
    this.#process = this.#spawn();
  }

  /** Resolves when the guard is ready to kill the process group when this process exits. With null, the guard no longer kills a group. */
  async watch(group: number | null, marker: string | null = null): Promise<void> {
    this.#group = group === null ? '' : `${group} ${marker ?? ''}`;
    await this.#update();
  }

  close(): void {
    this.#closed = true;
    this.#process.stdin?.end();
  }

  #update(): Promise<void> {
    const update = this.#updating.then(() => this.#updateNow());
    this.#updating = update.catch(() => undefined);
    return update;
  }

  /** Sends the process group to the guard. If the guard has died, starts a new guard and sends the group again. */
  async #updateNow(): Promise<void> {
    if (this.#process.stdin === null || this.#process.stdin.destroyed) {
      this.#process = this.#spawn();
    }
    try {
      await this.#write(this.#process);
    } catch {
      this.#process = this.#spawn();
      await this.#write(this.#process);
    }
  }

  /**
   * Resolves when the guard has acknowledged the group. A completed write is not enough, because if the guard dies, data that it has not
   * read yet is lost.
   */
  #write({ stdin, stdout }: ChildProcess): Promise<void> {
    return new Promise((resolve, reject) => {
      if (stdin === null || stdout === null || stdout.destroyed) {
        return reject(new Error('the guard has exited'));
      }
      const gone = (): void => reject(new Error('the guard has exited'));
      stdout.once('data', () => {
        stdout.off('close', gone);
        resolve();
      });
      stdout.once('close', gone);
      stdin.write(`${this.#group}\n`, (error) => error && reject(error));
    });
  }

  #spawn(): ChildProcess {
    const guard = spawn('/bin/bash', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'pipe', 'ignore'], env: {}, cwd: '/' });
    guard.unref();
    (guard.stdout as Socket).unref();
    guard.stdin?.on('error', () => {});
    guard.on('error', (error) => this.#log.error({ error: messageOf(error) }, "could not start the program's guard"));
    guard.on('exit', (code, signal) => {
      if (this.#closed || guard !== this.#process) {
        return;
      }
      this.#log.warn({ code, signal }, "the program's guard has exited; starting another one");
      guard.stdin?.destroy();
      setTimeout(() => {
        if (this.#closed || guard !== this.#process) {
          return;
        }
        this.#update().catch((error: unknown) => this.#log.error({ error: messageOf(error) }, "the program's guard does not respond"));
      }, PAUSE_MS).unref();
    });
    return guard;
  }
}
