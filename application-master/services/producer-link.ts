import type { FeedMessage, ProducerMessage } from '../../protos/feed-protocol.ts';

export interface ProducerLink {
  readonly feed: string;
  readonly producer: string;
  send(message: FeedMessage): void;
  /** Ends the connection. The producer then reconnects. */
  refuse(error: unknown): void;
}

/** Handles events on producers' connections. An error thrown by a handler is sent to the producer. */
export interface ProducerEvents {
  /** @param first number of the producer's first unconsumed chunk */
  readonly opened: (link: ProducerLink, first: number) => void;
  readonly received: (link: ProducerLink, message: ProducerMessage) => void;
  readonly closed: (link: ProducerLink) => void;
}
