import { status } from '@grpc/grpc-js';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { sameSecret } from '../../platform/same-secret.ts';
import type { Secret } from '../../platform/secret.ts';
import { FEED_TOKEN_METADATA, MAXIMUM_MESSAGE_BYTES } from '../../protos/feed-protocol.ts';
import { addService, onMessage, type ServerStream } from '../../protos/services.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { ProducerEvents, ProducerLink } from '../services/producer-link.ts';
import { createClientServer, listenPinned, onStreamEnd, type PinnedListener } from './pinned-server.ts';

type ProducerStream = ServerStream<'ProducerMessage', 'FeedMessage'>;

/** Timeout in ms for a producer's first message. */
const OPENING_MS = 10_000;
const MAXIMUM_STREAMS = 64;
const NAME = /^[\w.-]{1,100}$/;

export interface FeedServerOptions extends ProducerEvents {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly token: string;
  /** Timeout in ms for a client to send the token. */
  readonly proofMs?: number;
  readonly log: Logger;
}

/** Accepts connections from producers, authenticates the producers and passes their messages to the feeds. */
export class FeedServer {
  readonly #options: FeedServerOptions;
  readonly #server = createClientServer({ messageBytes: MAXIMUM_MESSAGE_BYTES, streams: MAXIMUM_STREAMS });
  #streams = 0;
  #listener: PinnedListener | null = null;

  constructor(options: FeedServerOptions) {
    this.#options = options;
    addService(this.#server, 'Feed', { Put: (stream) => this.#put(stream) });
  }

  async listen(address: string): Promise<number> {
    this.#listener = await listenPinned(this.#server, address, { ...this.#options, clients: 'token' });
    return this.#listener.port;
  }

  close(): void {
    this.#listener?.close();
    this.#server.forceShutdown();
  }

  #put(stream: ProducerStream): void {
    if (!sameSecret(this.#options.token, stream.metadata.get(FEED_TOKEN_METADATA)[0] ?? '')) {
      this.#options.log.warn({ peer: stream.getPeer() }, "rejected a producer without the feed's token");
      refuse(stream, status.UNAUTHENTICATED, "the feed's token is wrong");
      return;
    }
    this.#listener?.proven(stream.getPeer());
    if (this.#streams >= MAXIMUM_STREAMS) {
      refuse(stream, status.RESOURCE_EXHAUSTED, `the maximum of ${MAXIMUM_STREAMS} producers is already connected`);
    } else {
      this.#accept(stream);
    }
  }

  /** Passes an authenticated producer's messages to the feeds until the stream ends or is rejected. */
  #accept(stream: ProducerStream): void {
    const { opened, received, closed, log } = this.#options;
    let link: ProducerLink | null = null;
    let isOver = false;
    this.#streams++;
    const ended = (): void => {
      clearTimeout(deadline);
      if (isOver) {
        return;
      }
      isOver = true;
      this.#streams--;
      if (link !== null) {
        closed(link);
      }
    };
    const refuseWith = (error: unknown): void => {
      if (isOver) {
        return;
      }
      ended();
      const code = error instanceof TonyError && error.code === 'USAGE' ? status.INVALID_ARGUMENT : status.ABORTED;
      refuse(stream, code, messageOf(error));
    };
    const deadline = setTimeout(() => refuseWith(new Error('the producer sent no opening message')), OPENING_MS);
    onMessage(stream, (message) => {
      if (isOver) {
        return;
      }
      try {
        checkNumbers(message);
        if (link !== null) {
          return received(link, message);
        }
        clearTimeout(deadline);
        const { first, records, ...names } = openingOf(message);
        link = { ...names, send: (answer) => void (isOver || stream.write(answer)), refuse: refuseWith };
        opened(link, first, records);
      } catch (error) {
        log.warn({ producer: link?.producer, error: messageOf(error) }, 'rejected a producer');
        refuseWith(error);
      }
    });
    onStreamEnd(stream, ended);
  }
}

function refuse(stream: ProducerStream, code: status, details: string): void {
  stream.emit('error', { code, details });
}

function checkNumbers({ opening, chunk, ending }: TonyMessages['ProducerMessage']): void {
  const numbers = [opening?.first, opening?.records, chunk?.sequence, ending?.last];
  if (numbers.every((number) => number === undefined || Number.isSafeInteger(number))) {
    return;
  }
  throw new TonyError('USAGE', 'chunk numbers must be integers below 2^53');
}

function openingOf({ opening }: TonyMessages['ProducerMessage']): TonyMessages['Opening'] {
  const { feed = '', producer = '', first = 0, records = 0 } = opening ?? {};
  if (!NAME.test(feed) || !NAME.test(producer) || first < 1) {
    throw new TonyError('USAGE', 'names of feeds and producers may contain only letters, digits, dots, dashes and underscores');
  }
  return { feed, producer, first, records };
}
