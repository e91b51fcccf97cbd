import type { Readable, Writable } from 'node:stream';
import { TonyError } from '../../platform/errors.ts';
import { type SessionStream, writeTo } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';

export class Session {
  readonly #stream: SessionStream;
  readonly #throwIfEnded: () => Promise<void>;
  /** Whether the command runs in a terminal. */
  readonly terminal: boolean;

  /** @param throwIfEnded throws if the job has ended. The error explains why the session ended. */
  constructor(stream: SessionStream, terminal: boolean, throwIfEnded: () => Promise<void>) {
    this.#stream = stream;
    this.terminal = terminal;
    this.#throwIfEnded = throwIfEnded;
  }

  /**
   * Sends the input to the task, and writes the task's output until the session ends.
   * @param finished called when the output ends, which may be before the session ends
   * @throws TonyError SESSION_ENDED if the session ends early
   */
  async converse(
    input: Readable,
    output: Writable,
    errors: Writable,
    finished: () => void = () => {},
  ): Promise<TonyMessages['SessionEnd']> {
    let end: TonyMessages['SessionEnd'] | null = null;
    this.#stream.receive(async ({ data, endOfData, ended }) => {
      if (data) {
        await writeTo(data.channel === 'ERRORS' ? errors : output, data.bytes);
      } else if (endOfData?.channel === 'OUTPUT') {
        finished();
      } else if (ended) {
        end = ended;
      }
    });
    void this.#stream.sendAll('INPUT', input);
    const error = await this.#stream.closed;
    // The compiler does not see that the callback assigns `end`.
    const ended = end as TonyMessages['SessionEnd'] | null;
    if (ended !== null && ended.reason === '') {
      return ended;
    }
    if (ended !== null) {
      throw new TonyError('SESSION_ENDED', ended.reason);
    }
    await this.#throwIfEnded();
    const why = error === null ? '' : `: ${error.details}`;
    throw new TonyError('SESSION_ENDED', `The connection to the task was lost${why}.`);
  }

  /** Sends the size of the user's terminal to the task. */
  resize(window: TonyMessages['Window']): void {
    void this.#stream.send({ window });
  }

  /** Ends the session. The command or connection in the task ends with it. */
  close(): void {
    this.#stream.close();
  }
}
