import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { AddressRound, type Outcome } from '../rpc/address-round.ts';
import { MASTER_TOKEN_KIND, type Token } from '../rpc/credentials.ts';
import type { Qop } from '../rpc/digest-md5.ts';
import { type Endpoint, IpcConnection } from '../rpc/ipc.ts';
import { decodeMessage } from '../rpc/messages.ts';
import { endpointOfNode } from '../rpc/records.ts';
import { RemoteError } from '../rpc/remote-error.ts';

const PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB', version: 1 };
/**
 * A call fails once it has been rejected this many times per ResourceManager. A single rejection is not enough, because it can come from a
 * ResourceManager that is shutting down.
 */
const REFUSALS_BEFORE_GIVING_UP = 3;

export interface SchedulerOptions {
  /** RPC addresses of the ResourceManagers, in the order in which to try them. Without HA, there is only one. */
  readonly schedulers: readonly Endpoint[];
  /** The attempt's YARN_AM_RM_TOKEN, which all ResourceManagers accept. */
  readonly token: Token;
  /** Weakest acceptable protection, from HadoopConfiguration.minimumQop. */
  readonly minimumQop: Qop;
  readonly log: Logger;
  readonly callTimeoutMs?: number;
  /** A call fails if no ResourceManager has been reachable for this time, in ms. */
  readonly unreachableAfterMs?: number;
}

/** Sends calls to the active ResourceManager. Repeats a call until a ResourceManager responds, so all calls must be idempotent. */
export class SchedulerConnection {
  readonly #options: Required<SchedulerOptions>;
  readonly #round: AddressRound;
  readonly #clientId = randomBytes(16);
  #token: Token;
  #connection: { readonly address: string; readonly token: Token; readonly ipc: IpcConnection } | null = null;
  #away = false;
  #closed = false;

  constructor(options: SchedulerOptions) {
    if (options.token.kind !== MASTER_TOKEN_KIND) {
      throw new TonyError(
        'CREDENTIALS_INVALID',
        `The ResourceManager does not accept a token of the kind ${options.token.kind} from an ApplicationMaster.`,
      );
    }
    this.#options = { callTimeoutMs: 20_000, unreachableAfterMs: 900_000, ...options };
    this.#token = options.token;
    const addresses = options.schedulers.map(({ host, port }) => `${host}:${port}`);
    this.#round = new AddressRound(addresses, this.#options.unreachableAfterMs);
  }

  /**
   * Sends a call and returns the response message. Throws a RemoteError if the ResourceManager rejects the call, and ATTEMPT_FENCED if the
   * ResourceManager has removed this attempt.
   */
  async call<Request extends keyof HadoopMessages, Response extends keyof HadoopMessages>(
    method: string,
    requestName: Request,
    request: HadoopMessages[Request],
    responseName: Response,
  ): Promise<HadoopMessages[Response]> {
    const started = performance.now();
    let refusals = 0;
    const outcome = await this.#round.run<HadoopMessages[Response]>(async (address) => {
      const tried = await this.#try(address, method, requestName, request, responseName);
      if (!('failure' in tried)) {
        return tried;
      }
      const refused = tried.failure.code === 'RPC_DENIED' || tried.failure.code === 'RPC_MISMATCH';
      if (refused && ++refusals >= REFUSALS_BEFORE_GIVING_UP * this.#options.schedulers.length) {
        throw tried.failure;
      }
      return this.#again(address, method, tried.failure);
    });
    if ('result' in outcome) {
      return outcome.result;
    }
    if (this.#closed) {
      throw this.#closedError();
    }
    const seconds = Math.round((performance.now() - started) / 1000);
    throw new TonyError(
      'RM_UNREACHABLE',
      `No ResourceManager responded to ${method} for ${seconds} s. The last attempt failed: ${outcome.reason}.`,
      {
        hint: 'Check that the ResourceManager is running and that yarn.resourcemanager.scheduler.address names it.',
      },
    );
  }

  /** Sets the token for future connections. An existing connection keeps its token. */
  replaceToken(token: Token): void {
    if (Buffer.compare(token.identifier, this.#token.identifier) !== 0) {
      this.#options.log.info('the token for the ResourceManager was renewed');
    }
    this.#token = token;
  }

  close(): void {
    this.#closed = true;
    this.#round.close();
    this.#drop();
  }

  async #try<Request extends keyof HadoopMessages, Response extends keyof HadoopMessages>(
    address: string,
    method: string,
    requestName: Request,
    request: HadoopMessages[Request],
    responseName: Response,
  ): Promise<{ result: HadoopMessages[Response] } | { failure: TonyError }> {
    for (;;) {
      if (this.#closed) {
        throw this.#closedError();
      }
      const connection = this.#connect(address);
      try {
        const response = await connection.ipc.call(method, requestName, request, this.#options.callTimeoutMs);
        const result = decodeResponse(responseName, response, method, address);
        this.#here(address);
        return { result };
      } catch (error) {
        if (!(error instanceof TonyError) || error.code === 'RPC_ENDED') {
          throw error;
        }
        if (!(error instanceof RemoteError)) {
          this.#drop();
          return { failure: error };
        }
        if (error.fatal) {
          this.#drop();
        }
        if (error.is('StandbyException', 'RetriableException', 'RetryException', 'ServerTooBusyException')) {
          this.#drop();
          return { failure: error };
        }
        this.#here(address);
        if (!error.is('InvalidToken') || !error.fatal) {
          throw error;
        }
        if (connection.token !== this.#token) {
          continue;
        }
        throw new TonyError('ATTEMPT_FENCED', `The ResourceManager at ${address} no longer knows this attempt: ${error.remoteMessage}`, {
          cause: error,
        });
      }
    }
  }

  #connect(address: string): { readonly address: string; readonly token: Token; readonly ipc: IpcConnection } {
    if (this.#connection?.address === address && this.#connection.ipc.usable) {
      return this.#connection;
    }
    this.#drop();
    const token = this.#token;
    const ipc = new IpcConnection({
      endpoint: endpointOfNode(address),
      protocol: PROTOCOL,
      caller: { token, minimumQop: this.#options.minimumQop },
      clientId: this.#clientId,
      connectTimeoutMs: this.#options.callTimeoutMs,
    });
    this.#connection = { address, token, ipc };
    return this.#connection;
  }

  #drop(): void {
    this.#connection?.ipc.close();
    this.#connection = null;
  }

  #again<T>(address: string, method: string, failure: TonyError): Outcome<T> {
    if (!this.#away) {
      this.#options.log.warn({ scheduler: address, method, error: messageOf(failure) }, 'no ResourceManager responds; trying again');
    }
    this.#away = true;
    return { again: messageOf(failure) };
  }

  #here(address: string): void {
    if (this.#away) {
      this.#options.log.info({ scheduler: address }, 'a ResourceManager answers again');
    }
    this.#away = false;
  }

  #closedError(): TonyError {
    return new TonyError('RPC_ENDED', 'The connection to the ResourceManager was closed.');
  }
}

function decodeResponse<Response extends keyof HadoopMessages>(
  name: Response,
  bytes: Uint8Array,
  method: string,
  address: string,
): HadoopMessages[Response] {
  try {
    return decodeMessage(name, bytes);
  } catch (error) {
    throw new TonyError('RPC_MISMATCH', `${address} answered ${method} with an invalid ${name}: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}
