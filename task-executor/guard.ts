import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { messageOf } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';

/**
 * Remembers the last process group written to its standard input and acknowledges each with an empty line. When the input closes because
 * the writer has ended, the script kills that group, then every other group of the session led by the group's leader (field 6 of
 * /proc/PID/stat, the fourth after the command's name). The guard runs in its own session so that a signal that kills the writer does not
 * reach it.
 */
const SCRIPT = `trap '' PIPE
group=
while read -r line; do group=$line; echo; done
[ -n "$group" ] || exit 0
exec 2>/dev/null
kill -KILL -- "-$group"
for file in /proc/[0-9]*/stat; do
  read -r line <"$file" || continue
  set -- \${line##*) }
  if [ "$4" = "$group" ]; then pid=\${file#/proc/}; kill -KILL "\${pid%/stat}"; fi
done`;
const PAUSE_MS = 100;

/** Ends the user's processes when this process ends for any reason: a small helper process watches the other end of a pipe. */
export class Guard {
  readonly #log: Logger;
  #process: ChildProcess;
  #group = '';
  #closed = false;
  /** Serialises the writes: the guard acknowledges each with one line. */
  #updating: Promise<void> = Promise.resolve();

  constructor(log: Logger) {
    this.#log = log;
    this.#process = this.#spawn();
  }

  /** Once the promise resolves, the process group dies with this process. Null: no group is watched. */
  async watch(group: number | null): Promise<void> {
    this.#group = group === null ? '' : String(group);
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

  /**
   * A closed pipe or a missing acknowledgement shows that the guard has died. In that case, this method starts a new guard and sends it the
   * process group.
   */
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

  /** Resolves when the guard has acknowledged the group: if the guard dies, data that it has not read is lost. */
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
    guard.on('error', (error) => this.#log.error({ error: messageOf(error) }, 'could not start the guard of the program'));
    guard.on('exit', (code, signal) => {
      if (this.#closed || guard !== this.#process) {
        return;
      }
      this.#log.warn({ code, signal }, 'the guard of the program has exited; starting another one');
      guard.stdin?.destroy();
      setTimeout(() => {
        if (this.#closed || guard !== this.#process) {
          return;
        }
        this.#update().catch((error: unknown) => this.#log.error({ error: messageOf(error) }, 'the guard of the program does not respond'));
      }, PAUSE_MS).unref();
    });
    return guard;
  }
}
