import { type ChildProcess, spawn } from 'node:child_process';
import { messageOf } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';

/**
 * Remembers the last process group named on its input; when the input ends, because its writer is gone, that group is killed. A session
 * of its own keeps it out of reach of whatever kills the writer.
 */
const SCRIPT = 'group=; while read -r line; do group=$line; done; [ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null';
const PAUSE_MS = 100;

/** Sees to it that the user's processes do not outlive this one, however it ends: a tiny process holds the other end of a pipe. */
export class Guard {
  readonly #log: Logger;
  #process: ChildProcess;
  #group = '';
  #closed = false;

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

  /** A guard that has gone may be known only by the pipe that it left: another one is told then. */
  async #tell(): Promise<void> {
    if (this.#process.stdin === null || this.#process.stdin.destroyed) this.#process = this.#spawn();
    try {
      await this.#write(this.#process);
    } catch {
      this.#process = this.#spawn();
      await this.#write(this.#process);
    }
  }

  #write(guard: ChildProcess): Promise<void> {
    return new Promise((resolve, reject) => {
      if (guard.stdin === null) reject(new Error('the guard has no input'));
      else guard.stdin.write(`${this.#group}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  #spawn(): ChildProcess {
    const guard = spawn('/bin/bash', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'], env: {}, cwd: '/' });
    guard.unref();
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
