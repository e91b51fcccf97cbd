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

interface Waiting extends TaskRequest {
  /** Receives the path of the program's reply, or null if the program has ended. */
  readonly end: (reply: string | null) => void;
  state: 'queued' | 'taken' | 'withdrawn';
}

/** The requests of one feed that this task's processes answer. */
export class RequestQueue {
  readonly #requests = new Map<number, Waiting>();
  #reserved = 0;
  #last = 0;
  /** True if the client will send no more requests. */
  isOver = false;

  /** Reserves a place for a request that is being received. Returns false if the queue is full. */
  reserve(): boolean {
    if (this.#requests.size + this.#reserved >= MAXIMUM_WAITING) {
      return false;
    }
    this.#reserved++;
    return true;
  }

  /** Gives back a place for which no request has arrived. */
  release(): void {
    this.#reserved--;
  }

  /** Adds a request to a reserved place. `end` is called once. */
  add(path: string, format: TaskRequest['format'], end: Waiting['end']): number {
    this.release();
    const id = ++this.#last;
    this.#requests.set(id, { id, path, format, end, state: 'queued' });
    return id;
  }

  /** The client no longer waits for the reply. If the program has received the request, its file stays until the program replies. */
  withdraw(id: number): void {
    const request = this.#requests.get(id);
    if (request?.state === 'queued') {
      this.#requests.delete(id);
      request.end(null);
    } else if (request !== undefined) {
      request.state = 'withdrawn';
    }
  }

  /** Returns the oldest request that no process has received, or null if there is none. */
  take(): TaskRequest | null {
    for (const request of this.#requests.values()) {
      if (request.state === 'queued') {
        request.state = 'taken';
        const { id, path, format } = request;
        return { id, path, format };
      }
    }
    return null;
  }

  /** The program has replied. Returns false if the client no longer waits for the reply. */
  reply(id: number, path: string): boolean {
    if (id > this.#last) {
      throw new TonyError('DATA_INVALID', `there is no request ${id}`);
    }
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    request?.end(path);
    return request?.state === 'taken';
  }

  /** The program has ended. */
  close(): void {
    for (const { end } of this.#requests.values()) {
      end(null);
    }
    this.#requests.clear();
  }
}
