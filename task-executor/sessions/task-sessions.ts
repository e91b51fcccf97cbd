import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { SessionStream } from '../../protos/session-stream.ts';
import type { ProcessEnd } from '../guarded-process.ts';
import type { ProcessTree } from '../process-tree.ts';

/** A run of the task's program, with which the job's user may have sessions. */
export interface SessionRun {
  /** The program's processes, and those of the commands that the user runs in the task. */
  readonly trees: Set<ProcessTree>;
  /** Working directory of the program. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly task: string;
  /** Aborted when the program ends, with a sentence as the reason. */
  readonly signal: AbortSignal;
}

/** The sessions of the job's user with this task. They exist only while the task's program runs. */
export class TaskSessions {
  readonly #task: string;
  readonly #log: Logger;
  #run: { readonly run: SessionRun; readonly ending: AbortController } | null = null;

  constructor(task: string, log: Logger) {
    this.#task = task;
    this.#log = log;
  }

  /** Permits sessions with a program that has started. */
  begin({ tree, ...program }: Pick<SessionRun, 'folder' | 'environment'> & { readonly tree: ProcessTree }): void {
    const ending = new AbortController();
    this.#run = { run: { ...program, trees: new Set([tree]), task: this.#task, signal: ending.signal }, ending };
  }

  /** Ends all sessions, because the program has ended. */
  end({ code, signal }: ProcessEnd): void {
    const how = signal === '' ? `with exit code ${code}` : `by ${signal}`;
    this.#run?.ending.abort(`The program of ${this.#task} ended ${how}.`);
    this.#run = null;
  }

  /** @param stream null if no link to the ApplicationMaster is open; the ApplicationMaster then refuses the session */
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
    // Loaded on demand to save memory: most tasks never have a session.
    const { serveSession } = await import('./serve-session.ts');
    await serveSession(stream, run ?? `No program of ${this.#task} is running that permits sessions.`, this.#log);
  }
}
