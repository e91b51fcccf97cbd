import { type ChannelCredentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { formatAddress } from '../../platform/address.ts';
import { backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Secret } from '../../platform/secret.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';
import { type ClientStream, clientConstructor, onMessage, type ServiceClient } from '../../protos/services.ts';
import { SessionStream } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { MasterAddress } from './master-address.ts';

export interface MasterLinkEvents {
  /** The ApplicationMaster has accepted `hello`, which is the first message on this link. */
  readonly welcome: (welcome: TonyMessages['Welcome'], hello: TonyMessages['Hello']) => void;
  readonly message: (message: TonyMessages['MasterMessage']) => void;
  readonly lost: () => void;
  /** The ApplicationMaster has permanently rejected this container. `masterAttempt` is 0 if unknown. */
  readonly refused: (masterAttempt: number, reason: string) => void;
}

export interface MasterLinkOptions {
  readonly master: { readonly host: string; readonly port: number };
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly hello: () => TonyMessages['Hello'];
  /** Looks up the address of the newest ApplicationMaster attempt. Called when the current address does not respond. */
  readonly findMaster: () => Promise<MasterAddress | null>;
  readonly events: MasterLinkEvents;
  readonly log: Logger;
}

/** Timeout in ms for the Welcome, starting when the link begins to connect. */
const WELCOME_MS = 10_000;
const CONNECT_BACKOFF = { firstMs: 100, mostMs: 3_000 };
/** Maximum time in ms that `close` spends sending buffered messages. Messages that are still buffered after this time are lost. */
const FLUSH_MS = 200;
/** Metadata key in a rejection. The value is the number of the ApplicationMaster attempt. */
const ATTEMPT_METADATA = 'tony-attempt';
/** Timeout in ms for one attempt to forward a service request. */
const SERVE_MS = 30_000;
const SERVE_BACKOFF = { firstMs: 50, mostMs: 1_000 };
/** The largest response contains a 16 MiB feed record. */
const LARGEST_ANSWER_BYTES = 17 * 1024 * 1024;

const MasterClient = clientConstructor('ApplicationMaster');
type Stream = ClientStream<'ExecutorMessage', 'MasterMessage'>;

interface Connection {
  readonly client: ServiceClient<'ApplicationMaster'>;
  readonly stream: Stream;
  readonly hello: TonyMessages['Hello'];
  welcomed: boolean;
  over: boolean;
  /** Requests and sessions that end when the connection ends. */
  readonly calls: Set<{ cancel(): void }>;
  readonly deadline: NodeJS.Timeout;
}

/** The stream to the ApplicationMaster. Reconnects until an ApplicationMaster accepts the stream, and switches to newer attempts. */
export class MasterLink {
  readonly #options: MasterLinkOptions;
  readonly #credentials: ChannelCredentials;
  #address: { readonly host: string; readonly port: number };
  /** Number of the ApplicationMaster attempt at `#address`. Addresses of older attempts are ignored. */
  #attempt = 0;
  #connection: Connection | null = null;
  #failures = 0;
  #retry: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: MasterLinkOptions) {
    this.#options = options;
    this.#address = options.master;
    this.#credentials = pinnedCredentials(Buffer.from(options.certificate.reveal()), Buffer.from(options.privateKey.reveal()));
  }

  open(): void {
    if (this.#closed || this.#connection !== null) {
      return;
    }
    const client = new MasterClient(formatAddress(this.#address), this.#credentials, {
      ...PINNED_CHANNEL_OPTIONS,
      'grpc.max_receive_message_length': LARGEST_ANSWER_BYTES,
    });
    const stream = client.Attach();
    const deadline = setTimeout(() => this.#fail(connection, `no Welcome arrived within ${WELCOME_MS / 1000} s`), WELCOME_MS);
    const hello = this.#options.hello();
    const connection: Connection = { client, stream, hello, welcomed: false, over: false, calls: new Set(), deadline };
    this.#connection = connection;
    onMessage(stream, (message) => this.#hear(connection, message));
    stream.on('error', (error: ServiceError) => this.#failWith(connection, error));
    stream.on('end', () => this.#fail(connection, 'the ApplicationMaster ended the stream'));
    stream.write({ hello });
  }

  /** Sends a message. If no link is open, drops the message and returns false. */
  send(message: TonyMessages['ExecutorMessage']): boolean {
    const connection = this.#connection;
    if (connection === null || !connection.welcomed) {
      return false;
    }
    connection.stream.write(message);
    return true;
  }

  /**
   * Forwards a request from the program. Retries until the current or a later ApplicationMaster attempt responds. Returns null after
   * `maxWaitMs`, or when `signal` aborts.
   */
  async serve(
    request: Omit<TonyMessages['ServiceRequest'], 'containerId' | 'proof'>,
    maxWaitMs: number,
    signal: AbortSignal,
  ): Promise<TonyMessages['ServiceAnswer'] | null> {
    const until = performance.now() + maxWaitMs;
    for (let failures = 1; !signal.aborted; failures++) {
      const connection = this.#connection;
      if (connection?.welcomed === true) {
        const { containerId, proof } = connection.hello;
        const answer = await this.#serveOnce(connection, { ...request, containerId, proof }, signal);
        if (answer !== null) {
          return answer;
        }
      }
      const pauseMs = backoffMs(failures, SERVE_BACKOFF);
      if (performance.now() + pauseMs > until) {
        return null;
      }
      await pause(pauseMs, signal);
    }
    return null;
  }

  #serveOnce(
    connection: Connection,
    request: TonyMessages['ServiceRequest'],
    signal: AbortSignal,
  ): Promise<TonyMessages['ServiceAnswer'] | null> {
    return new Promise((resolve) => {
      const call = connection.client.Serve(request, new Metadata(), { deadline: Date.now() + SERVE_MS }, (error, answer) => {
        connection.calls.delete(call);
        signal.removeEventListener('abort', cancel);
        if (error !== null && !signal.aborted && !connection.over) {
          this.#options.log.warn(
            { service: request.service, code: status[error.code], reason: error.details },
            'the ApplicationMaster did not answer a service request; trying again',
          );
        }
        resolve(error === null ? (answer ?? null) : null);
      });
      const cancel = (): void => call.cancel();
      connection.calls.add(call);
      signal.addEventListener('abort', cancel);
    });
  }

  /** Opens a stream for a session that the ApplicationMaster has ordered the executor to join. Returns null if no link is open. */
  join(id: string): SessionStream | null {
    const connection = this.#connection;
    if (connection === null || !connection.welcomed) {
      return null;
    }
    const call = connection.client.Join();
    const session = new SessionStream(call);
    connection.calls.add(call);
    void session.closed.then(() => connection.calls.delete(call));
    const { containerId, proof } = connection.hello;
    void session.send({ joining: { containerId, proof, id } });
    return session;
  }

  /** True while earlier messages are buffered, so that callers can postpone less important messages. */
  get congested(): boolean {
    return this.#connection?.stream.writableNeedDrain ?? true;
  }

  disconnect(reason: string): void {
    if (this.#connection !== null) {
      this.#fail(this.#connection, reason);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#retry !== null) {
      clearTimeout(this.#retry);
    }
    const connection = this.#connection;
    if (connection === null) {
      return;
    }
    this.#connection = null;
    connection.over = true;
    clearTimeout(connection.deadline);
    const flushed = new Promise<void>((resolve) => {
      connection.stream.on('error', () => {});
      connection.stream.on('status', () => resolve());
      connection.stream.end();
    });
    await withTimeout(flushed, FLUSH_MS, () => {});
    connection.client.close();
  }

  #hear(connection: Connection, message: TonyMessages['MasterMessage']): void {
    if (connection.over) {
      return;
    }
    if (connection.welcomed) {
      this.#options.events.message(message);
      return;
    }
    if (!message.welcome) {
      this.#fail(connection, "the ApplicationMaster's first message was not Welcome");
      return;
    }
    clearTimeout(connection.deadline);
    connection.welcomed = true;
    this.#failures = 0;
    this.#attempt = Math.max(this.#attempt, message.welcome.masterAttempt);
    this.#options.events.welcome(message.welcome, connection.hello);
  }

  #failWith(connection: Connection, error: ServiceError): void {
    if (error.code === status.PERMISSION_DENIED) {
      if (connection.over) {
        return;
      }
      const attempt = Number(error.metadata?.get(ATTEMPT_METADATA)[0] ?? 0);
      this.#fail(connection, error.details);
      this.#options.events.refused(Number.isInteger(attempt) ? attempt : 0, error.details);
      return;
    }
    this.#fail(connection, `${status[error.code] ?? error.code}: ${error.details || messageOf(error)}`);
  }

  #fail(connection: Connection, reason: string): void {
    if (connection.over) {
      return;
    }
    connection.over = true;
    clearTimeout(connection.deadline);
    connection.stream.on('error', () => {});
    connection.stream.cancel();
    for (const call of connection.calls) {
      call.cancel();
    }
    connection.client.close();
    if (this.#connection === connection) {
      this.#connection = null;
    }
    if (this.#closed) {
      return;
    }
    const { host, port } = this.#address;
    this.#options.log.warn({ master: `${host}:${port}`, reason }, 'the connection to the ApplicationMaster failed; reconnecting');
    if (connection.welcomed) {
      this.#options.events.lost();
    }
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#retry !== null) {
      return;
    }
    this.#failures++;
    // The first failure is usually a broken connection. After the second failure, look for the ApplicationMaster at another address.
    const look = this.#failures > 1;
    this.#retry = setTimeout(
      async () => {
        const found = look ? await this.#options.findMaster() : null;
        this.#retry = null;
        if (found !== null && found.attempt >= this.#attempt) {
          if (found.host !== this.#address.host || found.port !== this.#address.port) {
            this.#options.log.info(
              { master: `${found.host}:${found.port}`, attempt: found.attempt },
              'found the address of another ApplicationMaster',
            );
          }
          this.#attempt = found.attempt;
          this.#address = found;
        }
        this.open();
      },
      jittered(backoffMs(this.#failures, CONNECT_BACKOFF)),
    );
  }
}
