import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { SessionStream } from '../../protos/session-stream.ts';
import type { ProcessEnd } from '../processes/guarded-process.ts';
import type { ProcessTree } from '../processes/process-tree.ts';
import type { SessionRun } from './session-run.ts';

export interface TaskOfSessions {
  readonly role: { readonly name: string };
  readonly index: number;
  readonly frozen: { readonly job: { readonly remoteAccess: boolean } };
}

/** Sessions between the job's user and this task. Sessions exist only while the task's program is running. */
export class TaskSessions {
  readonly #task: string;
  readonly #isPermitted: boolean;
  readonly #log: Logger;
  #run: { readonly run: SessionRun; readonly ending: AbortController } | null = null;

  constructor(task: TaskOfSessions, log: Logger) {
    this.#task = `${task.role.name}:${task.index}`;
    this.#isPermitted = task.frozen.job.remoteAccess;
    this.#log = log;
  }

  /** Accepts sessions with a program once it has started, if the job permits sessions. */
  begin(tree: ProcessTree, { folder, environment }: Pick<SessionRun, 'folder' | 'environment'>): void {
    if (this.#isPermitted) {
      const ending = new AbortController();
      this.#run = { run: { folder, environment, trees: new Set([tree]), task: this.#task, signal: ending.signal }, ending };
    }
  }

  /** Ends all sessions, because the program has ended. */
  end({ code, signal }: ProcessEnd): void {
    const how = signal === '' ? `with exit code ${code}` : `by ${signal}`;
    this.#run?.ending.abort(`The program of ${this.#task} ended ${how}.`);
    this.#run = null;
  }

  /** @param stream null if no link to the ApplicationMaster is open, in which case the ApplicationMaster refuses the session */
  open(stream: SessionStream | null): void {
    if (stream !== null) {
      this.#serve(stream).catch((error: unknown) => {
        this.#log.warn({ error: messageOf(error) }, 'a session failed');
        stream.close();
      });
    }
  }

  async #serve(stream: SessionStream): Promise<void> {
    const run = this.#run?.run;
    // Load the session code on demand to save memory, because most tasks never have a session.
    const { serveSession } = await import('./serve-session.ts');
    await serveSession(stream, run ?? `${this.#task} has no running program that permits sessions.`, this.#log);
  }
}
