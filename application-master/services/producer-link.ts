import type { FeedMessage, ProducerMessage } from '../../protos/feed-protocol.ts';

export interface ProducerLink {
  readonly feed: string;
  readonly producer: string;
  send(message: FeedMessage): void;
  /** Ends the connection. The producer then reconnects. */
  refuse(error: unknown): void;
}

/** Handles events on producers' connections. An error that a handler throws is sent to the producer. */
export interface ProducerEvents {
  /** @param first number of the first chunk that the producer still has */
  readonly opened: (link: ProducerLink, first: number) => void;
  readonly received: (link: ProducerLink, message: ProducerMessage) => void;
  readonly closed: (link: ProducerLink) => void;
}
