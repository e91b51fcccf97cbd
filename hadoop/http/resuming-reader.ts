import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { TonyError } from '../../platform/errors.ts';

/**
 * Opens the file at `offset`. Returns the response, and the number of bytes from there to the end of the range. `isHeldByUs` returns true
 * while the transfer is waiting for this process, so that the idle timeout does not apply.
 */
export type OpenAt = (
  offset: number,
  isHeldByUs: () => boolean,
) => Promise<{ readonly response: IncomingMessage; readonly remaining: number }>;

const HIGH_WATER_MARK = 256 * 1024;

/**
 * Streams a range of a file. If the connection breaks, calls `beforeResume` and reopens the file at the current offset. `beforeResume`
 * throws if the file has changed. The stream fails if the connection breaks twice without new data in between.
 */
export class ResumingReader extends Readable {
  readonly #open: OpenAt;
  readonly #beforeResume: () => Promise<void>;
  #offset: number;
  #response: IncomingMessage | null = null;
  #isConnecting = false;
  #isHeld = false;
  #hasProgress = true;

  constructor(offset: number, open: OpenAt, beforeResume: () => Promise<void>) {
    super({ highWaterMark: HIGH_WATER_MARK });
    this.#open = open;
    this.#beforeResume = beforeResume;
    this.#offset = offset;
  }

  override _read(): void {
    this.#isHeld = false;
    if (this.#response !== null) {
      this.#response.resume();
    } else if (!this.#isConnecting) {
      void this.#connect();
    }
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#response?.destroy();
    callback(error);
  }

  async #connect(): Promise<void> {
    this.#isConnecting = true;
    try {
      const { response, remaining } = await this.#open(this.#offset, () => this.#isHeld);
      this.#isConnecting = false;
      if (this.destroyed) {
        response.destroy();
      } else {
        this.#follow(response, remaining);
      }
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #follow(response: IncomingMessage, expected: number): void {
    this.#response = response;
    let remaining = expected;
    let isOver = false;
    const broken = (): void => {
      if (isOver || this.destroyed) {
        return;
      }
      isOver = true;
      this.#response = null;
      response.destroy();
      void this.#resume();
    };
    response.on('data', (chunk: Buffer) => {
      if (isOver) {
        return;
      }
      const bytes = chunk.length > remaining ? chunk.subarray(0, remaining) : chunk;
      this.#offset += bytes.length;
      remaining -= bytes.length;
      this.#hasProgress = true;
      if (remaining === 0) {
        isOver = true;
      }
      const wantsMore = this.push(bytes);
      if (remaining === 0) {
        this.push(null);
      } else if (!wantsMore) {
        this.#isHeld = true;
        response.pause();
      }
    });
    response.on('error', broken);
    response.on('end', broken);
    response.on('close', broken);
  }

  async #resume(): Promise<void> {
    this.#isConnecting = true;
    try {
      if (!this.#hasProgress) {
        throw new TonyError('HDFS_UNREACHABLE', 'The connection to the DataNode broke twice in a row without transferring any data.');
      }
      this.#hasProgress = false;
      await this.#beforeResume();
      if (!this.destroyed) {
        await this.#connect();
      }
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
