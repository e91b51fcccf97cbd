import { TonyError } from '../../platform/errors.ts';

/** Maximum number of requests of one feed that wait for the program. A client then tries another task. */
const MAXIMUM_WAITING = 4;

/** A request that the program answers: a file with records, to which the program replies with another file. */
export interface TaskRequest {
  readonly id: number;
  /** Path of the file with the request. */
  readonly path: string;
  readonly format: 'arrow' | 'pickle';
}

/** How a request ended: with the path of the program's reply, with the program's end, or with the client's. */
export type RequestEnd = { readonly reply: string } | 'ended';

interface Waiting extends TaskRequest {
  readonly end: (end: RequestEnd) => void;
  /** True if a process of the program has received the request. */
  taken: boolean;
}

/** The requests of one feed that this task's processes answer. */
export class RequestQueue {
  readonly #requests = new Map<number, Waiting>();
  #last = 0;
  /** True if the client will send no more requests. */
  isOver = false;

  get isFull(): boolean {
    return this.#requests.size >= MAXIMUM_WAITING;
  }

  /** Adds a request. `end` is called once, unless the client withdraws the request. */
  add(path: string, format: TaskRequest['format'], end: (end: RequestEnd) => void): number {
    const id = ++this.#last;
    this.#requests.set(id, { id, path, format, end, taken: false });
    return id;
  }

  /** Removes a request whose client no longer waits for the reply. */
  withdraw(id: number): void {
    this.#requests.delete(id);
  }

  /** Returns the oldest request that no process has received, or null if there is none. */
  take(): TaskRequest | null {
    for (const waiting of this.#requests.values()) {
      if (!waiting.taken) {
        waiting.taken = true;
        const { id, path, format } = waiting;
        return { id, path, format };
      }
    }
    return null;
  }

  /** The program has replied. A reply to a request that was withdrawn has no effect. */
  reply(id: number, path: string): void {
    if (id > this.#last) {
      throw new TonyError('DATA_INVALID', `there is no request ${id}`);
    }
    this.#requests.get(id)?.end({ reply: path });
    this.#requests.delete(id);
  }

  /** The program has ended. */
  close(): void {
    for (const { end } of this.#requests.values()) {
      end('ended');
    }
    this.#requests.clear();
  }
}
