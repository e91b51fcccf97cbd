import type { StoredTensor } from '../../../contract/checkpoint/checkpoint-format.ts';
import type { LossCode } from '../../../contract/connections/channel.ts';
import { connectAll } from '../../../contract/connections/connect-all.ts';
import { TonyError } from '../../../platform/errors.ts';
import { DEFAULT_TIMEOUTS, type RingOptions, type RingTimeouts } from '../../ring/ring-options.ts';
import { serverKey } from '../protocol/keys.ts';
import { getAnswer, helloAnswer, type ServerAsk, type SharedKey } from '../protocol/messages.ts';
import { type ServerAnswer, ServerConnection } from './server-connection.ts';

/** The ring options, except that `addresses` lists the servers, and `onLost` receives a server's index. */
export type ServerGroupOptions = Omit<RingOptions, 'listener' | 'onRefused'>;

export interface WorkerOptions extends ServerGroupOptions {
  /** How many steps a worker may be ahead of the slowest worker, or null for no limit. */
  readonly staleness: number | null;
}

/**
 * A worker's connections to all parameter servers. If a server is lost, the group calls `onLost`, and requests throw PEER_LOST after
 * `graceMs`. The job usually stops this generation before that time. The weights on the lost server cannot be recovered, so training
 * continues only in a new generation.
 */
export class ServerGroup {
  readonly size: number;
  readonly #timeouts: RingTimeouts;
  readonly #onLost: (server: number, cause: string) => void;
  readonly #connections: ServerConnection[] = [];
  readonly #broken: Promise<never>;
  #break: (error: TonyError) => void = () => {};
  #state: 'open' | 'lost' | 'closed' = 'open';
  #graceTimer: NodeJS.Timeout | null = null;
  #asks = 0;
  readonly #run: number;

  private constructor(options: ServerGroupOptions, run: number) {
    this.#run = run;
    this.size = options.addresses.length;
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
    this.#onLost = options.onLost;
    this.#broken = new Promise<never>((_, reject) => {
      this.#break = reject;
    });
    this.#broken.catch(() => {});
  }

  /**
   * Connects to every server.
   * @param run the run's number in this program.
   * @throws TonyError RING_JOIN_FAILED with the missing servers and their last errors.
   */
  static async open(options: ServerGroupOptions, run: number): Promise<ServerGroup> {
    const group = new ServerGroup(options, run);
    try {
      await group.#connect(options);
      await group.states();
    } catch (error) {
      group.close(false);
      throw error;
    }
    return group;
  }

  async #connect({ rank, worldSize, generation, key, security = 'none', addresses }: ServerGroupOptions): Promise<void> {
    const { joinMs, silenceMs } = this.#timeouts;
    if (key.reveal().length < 16) {
      throw new TonyError('RING_JOIN_FAILED', "the job's key is missing or shorter than 16 bytes");
    }
    const peers = addresses.map((address, server) => ({
      name: `parameter server ${server}`,
      connect: async (signal: AbortSignal, onRefused: (reason: string) => void) => {
        const identity = { generation, worldSize, from: rank, to: server, security };
        this.#connections[server] = await ServerConnection.dial(
          { address, key: serverKey(key).reveal(), identity, silenceMs, onLost: (cause, code) => this.#lose(server, cause, code) },
          signal,
          onRefused,
        );
      },
    }));
    await connectAll(peers, joinMs, undefined, (missing) => {
      const who = missing.map(({ name, reason }) => (reason === '' ? name : `${name} (${reason})`));
      return `this worker could not connect within ${joinMs / 1000} s to ${who.join(', ')}`;
    });
  }

  /**
   * Selects the run on each server. Must be the first request.
   * @returns the run's state on each server.
   */
  async states(): Promise<('empty' | 'prepared' | 'open')[]> {
    const answers = await this.askAll(() => ({ head: { ask: 'hello', run: this.#run } }));
    return answers.map(({ head }) => helloAnswer.parse(head).state);
  }

  /** Sends a request to one server. @throws TonyError PEER_LOST, or the server's own error if it refuses the request. */
  async ask(server: number, head: ServerAsk, body: readonly Uint8Array[] = [], bodyBytes: number | null = null): Promise<ServerAnswer> {
    this.#asks++;
    this.#graceTimer?.ref();
    try {
      return await Promise.race([this.#broken, (this.#connections[server] as ServerConnection).ask(head, body, bodyBytes)]);
    } finally {
      this.#asks--;
    }
  }

  /** Sends a request to every server concurrently. @returns the answers in server order. */
  async askAll(
    make: (server: number) => { readonly head: ServerAsk; readonly body?: readonly Uint8Array[]; readonly bodyBytes?: number | null },
  ): Promise<ServerAnswer[]> {
    return await Promise.all(
      Array.from({ length: this.size }, (_, server) => {
        const { head, body = [], bodyBytes = null } = make(server);
        return this.ask(server, head, body, bodyBytes);
      }),
    );
  }

  async put(server: number, key: SharedKey, tensors: readonly StoredTensor[]): Promise<void> {
    const described = tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape: [...shape], bytes: bytes.length }));
    await this.ask(
      server,
      { ask: 'put', key, tensors: described },
      tensors.map(({ bytes }) => bytes),
    );
  }

  /** Waits until the tensors are stored on the server, and returns them. */
  async get(server: number, key: SharedKey): Promise<StoredTensor[]> {
    const { head, body } = await this.ask(server, { ask: 'get', key });
    let at = 0;
    return getAnswer.parse(head).tensors.map(({ bytes, ...tensor }) => {
      at += bytes;
      return { ...tensor, bytes: body.subarray(at - bytes, at) };
    });
  }

  /** Closes the connections. @param announced true if this worker ends deliberately and needs no replacement. */
  close(announced: boolean): void {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      if (this.#graceTimer !== null) {
        clearTimeout(this.#graceTimer);
      }
      this.#break(new TonyError('RING_MISMATCH', 'this worker has closed its connections to the parameter servers'));
      for (const connection of this.#connections) {
        connection?.close(announced);
      }
    }
  }

  #lose(server: number, cause: string, code: LossCode): void {
    if (this.#state === 'closed') {
      return;
    }
    if (code === 'WIRE_INVALID') {
      // No other process reports this failure to the job, so requests fail immediately, even if another server has already been lost.
      this.#state = 'lost';
      clearTimeout(this.#graceTimer ?? undefined);
      this.#break(new TonyError(code, `parameter server ${server} ${cause}`));
      return;
    }
    if (this.#state === 'lost') {
      return;
    }
    this.#state = 'lost';
    this.#graceTimer = setTimeout(
      () => this.#break(new TonyError('PEER_LOST', `parameter server ${server} ${cause}`)),
      this.#timeouts.graceMs,
    );
    if (this.#asks === 0) {
      this.#graceTimer.unref();
    }
    this.#onLost(server, cause);
  }
}
