import type { TonyMessages } from '../../protos/tony-messages.ts';

export interface ProducerLink {
  readonly feed: string;
  readonly producer: string;
  send(message: TonyMessages['FeedMessage']): void;
  /** Ends the connection. The producer then reconnects. */
  refuse(error: unknown): void;
}

/** Handles events on producers' connections. An error that a handler throws is sent to the producer. */
export interface ProducerEvents {
  /**
   * @param first number of the first chunk that the producer still has
   * @param records number of records in the chunks before `first`
   */
  readonly opened: (link: ProducerLink, first: number, records: number) => void;
  readonly received: (link: ProducerLink, message: TonyMessages['ProducerMessage']) => void;
  readonly closed: (link: ProducerLink) => void;
}
