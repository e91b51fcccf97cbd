import { connect, type Socket } from 'node:net';
import { backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import { ERROR_CODES, type ErrorCode, messageOf, TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import { readTask } from '../process/task.ts';
import { ANSWER_LIMITS, encodeFrame, REQUEST_LIMITS, readFrame, type ServiceFrame } from './service-frame.ts';
import { socketPath } from './service-socket.ts';

/** The time limit in ms for an answer. The executor has a shorter limit, so the program receives the executor's error. */
const ANSWER_MS = 120_000;
const BACKOFF = { firstMs: 100, mostMs: 3_000 };
/**
 * How long, in ms, requests are retried while the executor is unreachable. The executor is rarely unreachable, because it starts before the
 * program, and the program exits if the executor dies.
 */
const EXECUTOR_MAX_WAIT_MS = 30_000;

export interface ServiceReply {
  readonly answer: Json;
  readonly body: Buffer;
}

/**
 * Sends requests from a program to its job's ApplicationMaster. The executor forwards the requests, because programs have no credentials.
 * `ask` retries a request while the ApplicationMaster is unreachable or being replaced, so all services must be idempotent.
 */
export class Services {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns the services of the job that this process belongs to, or null for a standalone program or a task without services. */
  static ofTask(): Services | null {
    const folder = readTask()?.services ?? null;
    return folder === null ? null : new Services(folder);
  }

  /**
   * Sends a request and waits for the answer.
   * @throws TonyError DATA_INVALID, SERVICE_LOST or the service's own error; `signal`'s abort reason.
   */
  async ask(service: string, question: Json, signal?: AbortSignal): Promise<ServiceReply> {
    const request = { head: Buffer.from(JSON.stringify({ service })), body: Buffer.from(JSON.stringify(question)) };
    if (request.body.length > REQUEST_LIMITS.body) {
      throw new TonyError('DATA_INVALID', `a request of ${request.body.length} bytes to ${service} exceeds the maximum size`, {
        hint: 'Use fewer, larger files or splits.',
      });
    }
    let lostSince: number | null = null;
    for (let failures = 1; ; failures++) {
      signal?.throwIfAborted();
      try {
        const reply = parseAnswer(await this.#exchange(request, signal));
        if (reply !== null) {
          return reply;
        }
        lostSince = null;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof TonyError) {
          throw error;
        }
        lostSince ??= performance.now();
        if (performance.now() - lostSince > EXECUTOR_MAX_WAIT_MS) {
          throw new TonyError('SERVICE_LOST', `this task's executor does not respond: ${messageOf(error)}`, { cause: error });
        }
      }
      await pause(jittered(backoffMs(failures, BACKOFF)), signal);
    }
  }

  async #exchange(request: ServiceFrame, signal: AbortSignal | undefined): Promise<ServiceFrame> {
    const place = socketPath(this.#folder);
    const socket = connect(place.path);
    const abort = (): void => void socket.destroy(new Error('the request was cancelled'));
    signal?.addEventListener('abort', abort);
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS / 1000} s`)));
    try {
      const answer = readFrame(socket, ANSWER_LIMITS);
      // Prevents an unhandled rejection if the connection fails before the code below awaits the answer.
      answer.catch(() => {});
      await connected(socket);
      socket.write(encodeFrame(request));
      return await answer;
    } finally {
      signal?.removeEventListener('abort', abort);
      socket.destroy();
      place.release();
    }
  }
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('connect', resolve).once('error', reject);
  });
}

/** Returns the answer, or null if the service is temporarily unavailable. @throws TonyError the service's own error. */
function parseAnswer({ head, body }: ServiceFrame): ServiceReply | null {
  const parsed = JSON.parse(Buffer.from(head).toString('utf8')) as {
    readonly answer?: Json;
    readonly error?: { readonly code: string; readonly message: string; readonly hint?: string };
    readonly unavailable?: boolean;
  };
  if (parsed.unavailable === true) {
    return null;
  }
  if (parsed.error !== undefined) {
    const { code, message, hint } = parsed.error;
    const known: ErrorCode = Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : 'INTERNAL';
    throw new TonyError(known, message, hint === undefined ? {} : { hint });
  }
  return { answer: parsed.answer ?? null, body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) };
}
