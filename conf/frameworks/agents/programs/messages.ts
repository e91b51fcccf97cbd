import path from 'node:path';
import type { Channel } from '../../../../contract/connections/channel.ts';
import type { Reader } from '../../../../contract/connections/reader.ts';

/*
 * Messages on the encrypted connections from rank 0 to the agents of the other tasks. Each message is a JSON text. Its length precedes it
 * as a big-endian uint32.
 */

export type AgentRequest =
  /** Opens a connection that lasts as long as rank 0's command is running. The agents exit when this connection closes. */
  | { readonly type: 'join' }
  /** Rank 0's command has exited. */
  | { readonly type: 'end' }
  /** Runs a bash command in a folder, relative to the task's folder. Creates the folder if necessary. The response is `ended`. */
  | { readonly type: 'run'; readonly command: string; readonly folder: string };

export interface AgentAnswer {
  readonly type: 'ended';
  readonly code: number;
}

/** Returns true for a relative path that stays below its start. */
export function isBelow(relative: unknown): boolean {
  return typeof relative === 'string' && !path.isAbsolute(relative) && relative.split('/').every((part) => part !== '..');
}

const HEADER_BYTES = 4;
const MOST_BYTES = 1 << 20;

export function sendMessage(channel: Channel, message: AgentRequest | AgentAnswer, onWritten?: () => void): void {
  const body = Buffer.from(JSON.stringify(message));
  const frame = Buffer.alloc(HEADER_BYTES + body.length);
  frame.writeUInt32BE(body.length);
  frame.set(body, HEADER_BYTES);
  channel.write(frame, onWritten);
}

/** Reads messages. Limits their length, even though the peer is authenticated. */
export class MessageReader<T> implements Reader {
  readonly #onMessage: (message: T) => void;
  readonly #onInvalid: (reason: string) => void;
  #buffer = Buffer.alloc(HEADER_BYTES);
  #filled = 0;
  #inBody = false;

  constructor(onMessage: (message: T) => void, onInvalid: (reason: string) => void) {
    this.#onMessage = onMessage;
    this.#onInvalid = onInvalid;
  }

  destination(): Uint8Array {
    return this.#buffer.subarray(this.#filled);
  }

  received(count: number): boolean {
    this.#filled += count;
    if (this.#filled < this.#buffer.length) {
      return true;
    }
    if (this.#inBody) {
      const body = this.#buffer;
      this.#expect(HEADER_BYTES, false);
      this.#parse(body);
      return true;
    }
    const length = this.#buffer.readUInt32BE();
    if (length === 0 || length > MOST_BYTES) {
      this.#expect(HEADER_BYTES, false);
      this.#onInvalid(`a message of ${length} bytes`);
      return true;
    }
    this.#expect(length, true);
    return true;
  }

  #expect(bytes: number, inBody: boolean): void {
    this.#buffer = Buffer.alloc(bytes);
    this.#filled = 0;
    this.#inBody = inBody;
  }

  #parse(body: Buffer): void {
    let message: T;
    try {
      message = JSON.parse(body.toString('utf8')) as T;
    } catch {
      this.#onInvalid('a message that is not JSON');
      return;
    }
    this.#onMessage(message);
  }
}
