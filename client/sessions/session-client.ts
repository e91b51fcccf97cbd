import { Readable } from 'node:stream';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { isOver } from '../../conf/status/job-info.ts';
import { backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { TonyError } from '../../platform/errors.ts';
import type { ServiceClient } from '../../protos/services.ts';
import { SESSION_TOKEN_METADATA, type SessionAddress } from '../../protos/session-protocol.ts';
import { SessionStream } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { connectToMaster, readSessionAddress } from '../connections/session-address.ts';
import { Session } from './session.ts';

/** Timeout for the response to a request (ms). The ApplicationMaster and the executor have shorter timeouts. */
const OPEN_MS = 30_000;
/** Time for which the client tries to reach an ApplicationMaster that may be restarting (ms). */
const MAX_WAIT_MS = 30_000;
const BACKOFF = { firstMs: 200, mostMs: 2_000 };

interface Connection {
  readonly channel: ServiceClient<'Sessions'>;
  readonly token: string;
}

/** Opens sessions with a job's tasks over a single TLS connection. Accepts only the job's own certificate. */
export class SessionClient {
  readonly #job: JobConnection;
  #connection: Connection | null = null;

  constructor(job: JobConnection) {
    this.#job = job;
  }

  /**
   * Opens a session. Retries while the ApplicationMaster is unreachable.
   * @throws TonyError SESSION_DENIED, SESSION_ENDED if the job has ended, REMOTE_ACCESS_DENIED
   */
  async open(request: TonyMessages['SessionRequest']): Promise<Session> {
    const until = performance.now() + MAX_WAIT_MS;
    for (let failures = 1; ; failures++) {
      const address = this.#connection === null ? await this.#readAddress() : null;
      this.#connection ??= address && { channel: connectToMaster(address), token: address.token };
      const opened =
        this.#connection === null ? 'the ApplicationMaster has not published its address' : await this.#request(this.#connection, request);
      if (typeof opened !== 'string') {
        return opened;
      }
      await this.throwIfEnded();
      await throwIfForeign(this.#job);
      if (performance.now() > until) {
        throw new TonyError('SESSION_DENIED', `${this.#job.id} cannot be reached: ${opened}.`, {
          hint: `tony-ts status ${this.#job.id} shows whether the job is running.`,
        });
      }
      await pause(jittered(backoffMs(failures, BACKOFF)));
    }
  }

  /** Checks that the task accepts sessions. */
  async check(task: Pick<TonyMessages['SessionRequest'], 'role' | 'index'>): Promise<void> {
    const session = await this.open({ ...task, command: { words: ['true'], terminal: null } });
    await session.converse(Readable.from([]), process.stderr, process.stderr);
  }

  /** @throws TonyError SESSION_ENDED if the job has ended */
  async throwIfEnded(): Promise<void> {
    const job = await this.#job.observe();
    if (isOver(job)) {
      throw jobEnded(job.id, job.state);
    }
  }

  /** Closes the connection, which ends all sessions. */
  close(): void {
    this.#connection?.channel.close();
    this.#connection = null;
  }

  /** Returns the session, or the reason why the ApplicationMaster cannot be reached. */
  async #request({ channel, token }: Connection, request: TonyMessages['SessionRequest']): Promise<Session | string> {
    const metadata = new Metadata();
    metadata.set(SESSION_TOKEN_METADATA, token);
    const stream = new SessionStream(channel.Open(metadata));
    void stream.send({ request });
    const first = await withTimeout(stream.first(), OPEN_MS, () => null);
    if (first?.opened) {
      return new Session(stream, first.opened.terminal, () => this.throwIfEnded());
    }
    stream.close();
    if (first?.ended) {
      throw refused(first.ended.reason);
    }
    const error = stream.isClosed ? await stream.closed : null;
    if (error?.code === status.UNAVAILABLE && this.#connection?.channel === channel) {
      // The ApplicationMaster is unreachable. Discard its address, because the next attempt has a different one.
      this.close();
    }
    if (error !== null && FINAL.has(error.code)) {
      throw refused(error.details);
    }
    return error === null ? 'no answer arrived' : describe(error);
  }

  /** Returns null if the job has no running ApplicationMaster. */
  async #readAddress(): Promise<SessionAddress | null> {
    const sessions = await readSessionAddress(this.#job.records);
    if (sessions === null) {
      throw new TonyError('REMOTE_ACCESS_DENIED', `${this.#job.id} does not permit sessions: remoteAccess is false.`);
    }
    return sessions ?? null;
  }
}

/**
 * Rejects a job of another user, because only the owner can read a job's staging folder.
 * @throws TonyError ACCESS_DENIED
 */
export async function throwIfForeign({ records, id }: JobConnection): Promise<void> {
  const owner = (await records.yarn())?.user ?? records.user;
  if (owner !== records.user) {
    throw new TonyError('ACCESS_DENIED', `${id} is a job of ${owner}; you are ${records.user}.`, {
      hint: `Only ${owner} can open sessions with its tasks.`,
    });
  }
}

/** Errors that would occur again if the client retried the request. */
const FINAL: ReadonlySet<status> = new Set([
  status.UNAUTHENTICATED,
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.FAILED_PRECONDITION,
  status.RESOURCE_EXHAUSTED,
]);

/** Returns the error for a session with an ended job. */
export function jobEnded(jobId: string, state: string): TonyError {
  return new TonyError('SESSION_ENDED', `${jobId} has ended: ${state}.`, {
    hint: `A session needs a running task. The output of the job's programs: tony-ts logs ${jobId}`,
  });
}

function refused(reason: string): TonyError {
  return new TonyError('SESSION_DENIED', reason);
}

function describe({ code, details }: ServiceError): string {
  return `${status[code] ?? code}: ${details}`;
}
