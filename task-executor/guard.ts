import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { messageOf } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';

/**
 * Remembers the last process group named on its input, and says so by an empty line; when the input ends, because its writer is gone, that
 * group is killed. A session of its own keeps it out of reach of whatever kills the writer.
 */
const SCRIPT = `trap '' PIPE; group=; while read -r line; do group=$line; echo; done; [ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null`;
const PAUSE_MS = 100;

/** Sees to it that the user's processes do not outlive this one, however it ends: a tiny process holds the other end of a pipe. */
export class Guard {
  readonly #log: Logger;
  #process: ChildProcess;
  #group = '';
  #closed = false;
  /** One thing is told after the other: each is answered by one line. */
  #telling: Promise<void> = Promise.resolve();

  constructor(log: Logger) {
    this.#log = log;
    this.#process = this.#spawn();
  }

  /** From the time that this resolves the group dies with this process; null: no group does. */
  async watch(group: number | null): Promise<void> {
    this.#group = group === null ? '' : String(group);
    await this.#tell();
  }

  close(): void {
    this.#closed = true;
    this.#process.stdin?.end();
  }

  #tell(): Promise<void> {
    const told = this.#telling.then(() => this.#tellNow());
    this.#telling = told.catch(() => undefined);
    return told;
  }

  /** A guard that has gone may be known only by the pipe that it left, or by its silence: another one is told then. */
  async #tellNow(): Promise<void> {
    if (this.#process.stdin === null || this.#process.stdin.destroyed) this.#process = this.#spawn();
    try {
      await this.#write(this.#process);
    } catch {
      this.#process = this.#spawn();
      await this.#write(this.#process);
    }
  }

  /** Resolves when the guard has read it: what is only written may be lost with a guard that dies. */
  #write({ stdin, stdout }: ChildProcess): Promise<void> {
    return new Promise((resolve, reject) => {
      if (stdin === null || stdout === null || stdout.destroyed) return reject(new Error('the guard has gone'));
      const gone = (): void => reject(new Error('the guard has gone'));
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
    guard.on('error', (error) => this.#log.error({ error: messageOf(error) }, 'the guard of the program could not be started'));
    guard.on('exit', (code, signal) => {
      if (this.#closed || guard !== this.#process) return;
      this.#log.warn({ code, signal }, 'the guard of the program has gone; another one takes its place');
      guard.stdin?.destroy();
      setTimeout(() => {
        if (this.#closed || guard !== this.#process) return;
        this.#tell().catch((error: unknown) => this.#log.error({ error: messageOf(error) }, 'the guard of the program does not listen'));
      }, PAUSE_MS).unref();
    });
    return guard;
  }
}
