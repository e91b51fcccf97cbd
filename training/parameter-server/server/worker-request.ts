export interface Client {
  readonly rank: number;
  answer(id: number, head: object, body?: readonly Uint8Array[]): void;
  refuse(id: number, error: unknown): void;
  hold(id: number): void;
}

/** A worker's request. The session must answer or refuse each request exactly once. */
export class WorkerRequest {
  readonly client: Client;
  readonly rank: number;
  readonly #id: number;

  constructor(client: Client, id: number) {
    this.client = client;
    this.rank = client.rank;
    this.#id = id;
  }

  /** Answers the request. @param body arrays whose bytes are concatenated. */
  answer(head: object, body: readonly (Float32Array | Uint8Array)[] = []): void {
    this.client.answer(
      this.#id,
      head,
      body.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
    );
  }

  refuse(error: unknown): void {
    this.client.refuse(this.#id, error);
  }

  hold(): void {
    this.client.hold(this.#id);
  }
}
