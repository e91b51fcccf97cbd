import { createHmac } from 'node:crypto';
import { type Metadata, status } from '@grpc/grpc-js';
import { withTimeout } from '../../platform/async/deadline.ts';
import type { Logger } from '../../platform/log.ts';
import { sameSecret } from '../../platform/same-secret.ts';
import type { Secret } from '../../platform/secret.ts';
import { addService, type ServerStream } from '../../protos/services.ts';
import { MAXIMUM_SESSION_MESSAGE_BYTES, SESSION_TOKEN_METADATA, type SessionAddress } from '../../protos/session-protocol.ts';
import { SessionStream } from '../../protos/session-stream.ts';
import { createClientServer, listenPinned, type PinnedListener } from './pinned-server.ts';
import type { SessionRelay } from './session-relay.ts';

/** Timeout in ms for a client's first message. */
const REQUEST_MS = 10_000;
const MAXIMUM_STREAMS = 256;
const WRONG_TOKEN = 'The session token is wrong.';

export interface SessionServerOptions {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly jobSecret: Secret;
  readonly relay: SessionRelay;
  /** Ends the job as killed. Returns the time in ms in which the job ends if the cluster responds. */
  readonly kill: (reason: string) => number;
  readonly log: Logger;
}

/** Accepts sessions and kill requests from the job's user, who authenticates with a token from the staging folder. */
export class SessionServer {
  readonly #options: SessionServerOptions;
  readonly #token: string;
  readonly #server = createClientServer({ messageBytes: MAXIMUM_SESSION_MESSAGE_BYTES, streams: MAXIMUM_STREAMS });
  #streams = 0;
  #listener: PinnedListener | null = null;

  constructor(options: SessionServerOptions) {
    this.#options = options;
    this.#token = createHmac('sha256', options.jobSecret.reveal()).update('session').digest('hex');
    addService(this.#server, 'Sessions', {
      Open: (stream) => void this.#open(stream),
      Kill: (call, answer) => {
        if (this.#isAuthentic(call)) {
          answer(null, { withinMs: options.kill(call.request.reason) });
        } else {
          answer({ code: status.UNAUTHENTICATED, details: WRONG_TOKEN });
        }
      },
    });
  }

  async listen(address: string): Promise<number> {
    this.#listener = await listenPinned(this.#server, address, { ...this.#options, clients: 'token' });
    return this.#listener.port;
  }

  /** Returns the data that clients need to connect, including the token. */
  addressAt(host: string, port: number): SessionAddress {
    return { host, port, token: this.#token, certificate: Buffer.from(this.#options.certificate.reveal()).toString() };
  }

  close(): void {
    this.#listener?.close();
    this.#server.forceShutdown();
  }

  #isAuthentic(call: { readonly metadata: Metadata; getPeer(): string }): boolean {
    const isAuthentic = sameSecret(this.#token, call.metadata.get(SESSION_TOKEN_METADATA)[0] ?? '');
    if (isAuthentic) {
      this.#listener?.proven(call.getPeer());
    } else {
      this.#options.log.warn({ peer: call.getPeer() }, "rejected a call without the job's session token");
    }
    return isAuthentic;
  }

  async #open(stream: ServerStream<'SessionMessage', 'SessionMessage'>): Promise<void> {
    const session = new SessionStream(stream);
    if (!this.#isAuthentic(stream)) {
      session.refuse(status.UNAUTHENTICATED, WRONG_TOKEN);
      return;
    }
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
}
