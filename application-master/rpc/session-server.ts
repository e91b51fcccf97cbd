import { createHmac, timingSafeEqual } from 'node:crypto';
import { Server, type ServerDuplexStream, status } from '@grpc/grpc-js';
import { withTimeout } from '../../platform/deadline.ts';
import type { Logger } from '../../platform/log.ts';
import type { Secret } from '../../platform/secret.ts';
import {
  MAXIMUM_SESSION_MESSAGE_BYTES,
  SESSION_TOKEN_METADATA,
  type SessionAddress,
  type SessionMessage,
  sessionService,
} from '../../protos/session-protocol.ts';
import { SessionStream } from '../../protos/session-stream.ts';
import { listenPinned, type PinnedListener } from './pinned-server.ts';
import type { SessionRelay } from './session-relay.ts';

/** Timeout in ms for a client's first message. */
const REQUEST_MS = 10_000;
const MAXIMUM_STREAMS = 256;
/** Interval in ms of keepalive pings. They detect clients on failed machines, whose commands would otherwise continue to run. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_ANSWER_MS = 10_000;

export interface SessionServerOptions {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly jobSecret: Secret;
  readonly relay: SessionRelay;
  readonly log: Logger;
}

/** Accepts sessions from the job's user, who authenticates with a token from the staging folder. */
export class SessionServer {
  readonly #options: SessionServerOptions;
  readonly #token: string;
  readonly #server = new Server({
    'grpc.max_receive_message_length': MAXIMUM_SESSION_MESSAGE_BYTES,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_ANSWER_MS,
    'grpc.max_concurrent_streams': MAXIMUM_STREAMS,
  });
  #streams = 0;
  #listener: PinnedListener | null = null;

  constructor(options: SessionServerOptions) {
    this.#options = options;
    this.#token = createHmac('sha256', options.jobSecret.reveal()).update('session').digest('hex');
    this.#server.addService(sessionService(), {
      Open: (stream: ServerDuplexStream<SessionMessage, SessionMessage>) => void this.#open(stream),
    });
  }

  async listen(address: string): Promise<number> {
    this.#listener = await listenPinned(this.#server, address, { ...this.#options, clients: 'token' });
    return this.#listener.port;
  }

  /** Returns the data with which clients connect. It contains the token. */
  addressAt(host: string, port: number): SessionAddress {
    return { host, port, token: this.#token, certificate: Buffer.from(this.#options.certificate.reveal()).toString() };
  }

  close(): void {
    this.#listener?.close();
    this.#server.forceShutdown();
  }

  async #open(stream: ServerDuplexStream<SessionMessage, SessionMessage>): Promise<void> {
    const session = new SessionStream(stream);
    if (!this.#isToken(stream.metadata.get(SESSION_TOKEN_METADATA)[0])) {
      this.#options.log.warn({ peer: stream.getPeer() }, "rejected a session without the job's session token");
      session.refuse(status.UNAUTHENTICATED, 'The session token is wrong.');
      return;
    }
    this.#listener?.proven(stream.getPeer());
    if (this.#streams >= MAXIMUM_STREAMS) {
      session.refuse(status.RESOURCE_EXHAUSTED, `The job already has the maximum of ${MAXIMUM_STREAMS} sessions.`);
      return;
    }
    this.#streams++;
    try {
      const first = await withTimeout(session.first(), REQUEST_MS, () => null);
      if (first?.request) {
        await this.#options.relay.open(session, first.request);
      } else {
        session.refuse(status.INVALID_ARGUMENT, 'The first message was not a request.');
      }
    } finally {
      this.#streams--;
    }
  }

  #isToken(given: unknown): boolean {
    const [mine, theirs] = [Buffer.from(this.#token), Buffer.from(typeof given === 'string' ? given : '')];
    return mine.length === theirs.length && timingSafeEqual(mine, theirs);
  }
}
