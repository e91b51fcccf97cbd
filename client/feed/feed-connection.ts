import { type ClientDuplexStream, Metadata, makeClientConstructor, type ServiceError, status } from '@grpc/grpc-js';
import { formatAddress } from '../../platform/address.ts';
import {
  FEED_TOKEN_METADATA,
  type FeedAddress,
  type FeedMessage,
  feedService,
  MAXIMUM_MESSAGE_BYTES,
  type ProducerMessage,
} from '../../protos/feed-protocol.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';

/** Time (ms) within which the job must send its first message on a new connection. */
const FIRST_MESSAGE_MS = 15_000;

const FeedClient = makeClientConstructor(feedService(), 'Feed');
type Stream = ClientDuplexStream<ProducerMessage, FeedMessage>;

export interface FeedConnectionEvents {
  readonly message: (message: FeedMessage) => void;
  /** Called when the send buffer has space again. */
  readonly room: () => void;
  /** Called once, when the connection ends. If `isFinal` is true, a new connection would fail with the same error. */
  readonly lost: (reason: string, isFinal: boolean) => void;
}

/** TLS connection from a producer to the ApplicationMaster. Accepts only the job's certificate. */
export class FeedConnection {
  readonly #client: InstanceType<typeof FeedClient>;
  readonly #stream: Stream;
  readonly #deadline: NodeJS.Timeout;
  #isOver = false;

  constructor(address: FeedAddress, opening: NonNullable<ProducerMessage['opening']>, events: FeedConnectionEvents) {
    this.#client = new FeedClient(formatAddress(address), pinnedCredentials(address.certificate), {
      ...PINNED_CHANNEL_OPTIONS,
      'grpc.max_send_message_length': MAXIMUM_MESSAGE_BYTES,
    });
    const metadata = new Metadata();
    metadata.set(FEED_TOKEN_METADATA, address.token);
    this.#stream = (this.#client as unknown as { Put: (metadata: Metadata) => Stream }).Put(metadata);
    const lose = (reason: string, isFinal = false): void => {
      if (this.#isOver) {
        return;
      }
      this.close();
      events.lost(reason, isFinal);
    };
    this.#deadline = setTimeout(() => lose(`no answer within ${FIRST_MESSAGE_MS / 1000} s`), FIRST_MESSAGE_MS);
    this.#stream.on('data', (message: FeedMessage) => {
      clearTimeout(this.#deadline);
      if (!this.#isOver) {
        events.message(message);
      }
    });
    this.#stream.on('error', (error: ServiceError) => {
      const isFinal = error.code === status.UNAUTHENTICATED || error.code === status.INVALID_ARGUMENT;
      lose(error.details || error.message, isFinal);
    });
    this.#stream.on('drain', () => events.room());
    this.#stream.on('end', () => lose('the job closed the connection'));
    this.#stream.write({ opening });
  }

  /** Whether the send buffer is full. When the buffer has space again, `room` is called. */
  get isFull(): boolean {
    return this.#stream.writableNeedDrain;
  }

  send(message: ProducerMessage): void {
    if (!this.#isOver) {
      this.#stream.write(message);
    }
  }

  close(): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    clearTimeout(this.#deadline);
    this.#stream.on('error', () => {});
    this.#stream.cancel();
    this.#client.close();
  }
}
