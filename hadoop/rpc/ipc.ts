import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { createConnection, type Socket } from 'node:net';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import type { Token } from './credentials.ts';
import type { Qop } from './digest-md5.ts';
import { encodeFrame, FrameReader } from './frame.ts';
import { decodeMessage, encodeDelimited, splitDelimited } from './messages.ts';
import { RemoteError } from './remote-error.ts';
import { SaslClient, type SaslStep, WeakProtection } from './sasl.ts';
import type { SecurityLayer } from './security-layer.ts';

/*
 * Hadoop IPC, version 9 (org.apache.hadoop.ipc.Client and Server), with token authentication:
 *
 *   client                                                        server
 *   "hrpc" 09 00 DF, frame{ header -33, SASL NEGOTIATE }   ->
 *                                                          <-     frame{ header -33, SASL NEGOTIATE: methods, challenge }
 *   frame{ header -33, SASL INITIATE: response }           ->
 *                                                          <-     frame{ header -33, SASL SUCCESS: proof }
 *   frame{ header -3, IpcConnectionContext }               ->
 *   frame{ header n, RequestHeader, request }              ->
 *                                                          <-     frame{ header n, response }   in any order
 *
 * With `simple` authentication, the cluster trusts the user name that the client sends. There is no SASL exchange: the last byte of the
 * preamble is 00, and the frame with the IpcConnectionContext follows immediately.
 *
 * If client and server negotiate a security layer, they encrypt or sign all frames after SASL SUCCESS. Each protected piece of the byte
 * stream is sent as frame{ header -33, SASL WRAP }.
 *
 * The status of a response is SUCCESS, ERROR (only this call failed) or FATAL (the whole connection is unusable).
 */
const SASL_PREAMBLE = Buffer.from([...Buffer.from('hrpc'), 9, 0, 0xdf]);
const SIMPLE_PREAMBLE = Buffer.from([...Buffer.from('hrpc'), 9, 0, 0]);
const SASL_CALL = -33;
const CONTEXT_CALL = -3;
/**
 * Maximum frame length in bytes. Java's default of 128 MiB (`ipc.maximum.response.length`) exceeds a typical ApplicationMaster's memory.
 */
const MAX_FRAME_BYTES = 32 * 1024 * 1024;
const MAX_CALLS_IN_FLIGHT = 1024;
const KEEP_ALIVE_MS = 60_000;

/** A Hadoop RPC protocol, identified by the name and version of its Java interface. */
export interface Protocol {
  readonly name: string;
  readonly version: number;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export interface IpcOptions {
  readonly endpoint: Endpoint;
  readonly protocol: Protocol;
  /** The caller's identity: a token and the weakest acceptable protection. For a server without Kerberos, it is a user name. */
  readonly caller: { readonly token: Token; readonly minimumQop: Qop } | { readonly user: string };
  /** 16-byte client ID, shared by all of this process's connections. */
  readonly clientId: Uint8Array;
  /** Maximum time in ms for connecting and authenticating. */
  readonly connectTimeoutMs: number;
  readonly clientNonce?: () => string;
}

type ResponseHeader = HadoopMessages['RpcResponseHeaderProto'];

interface PendingCall {
  readonly method: string;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (response: Buffer) => void;
  readonly reject: (error: TonyError) => void;
}

/**
 * A single connection that never reconnects. If the connection fails, all pending calls reject with the same error, in the order in which
 * they were made. After that, callers need a new connection.
 */
export class IpcConnection {
  readonly #options: IpcOptions;
  readonly #where: string;
  readonly #socket: Socket;
  /** Null if the cluster uses `simple` authentication. */
  readonly #sasl: SaslClient | null;
  readonly #pending = new Map<number, PendingCall>();
  /** IDs of calls that have timed out. A late response to one of them is discarded. */
  readonly #abandoned = new Set<number>();
  readonly #outer = new FrameReader(MAX_FRAME_BYTES);
  readonly #inner = new FrameReader(MAX_FRAME_BYTES);
  readonly #opened: Promise<void>;
  #state: 'authenticating' | 'open' | 'closed' = 'authenticating';
  #connected = false;
  #layer: SecurityLayer | null = null;
  #failure: TonyError | null = null;
  #settleOpened: { resolve: () => void; reject: (error: TonyError) => void } | null = null;
  #nextCallId = 0;

  constructor(options: IpcOptions) {
    this.#options = options;
    this.#where = `${options.endpoint.host}:${options.endpoint.port}`;
    const { caller, clientNonce = () => randomBytes(24).toString('base64') } = options;
    this.#sasl = 'token' in caller ? new SaslClient(caller.token, caller.minimumQop, clientNonce) : null;
    this.#opened = new Promise((resolve, reject) => {
      this.#settleOpened = { resolve, reject };
    });
    // Prevents an unhandled rejection if nothing has called `opened()`.
    this.#opened.catch(() => {});
    const deadline = setTimeout(() => {
      this.#fail(new TonyError('RPC_UNREACHABLE', `${this.#where} did not respond within ${options.connectTimeoutMs} ms.`));
    }, options.connectTimeoutMs);
    this.#opened.then(
      () => clearTimeout(deadline),
      () => clearTimeout(deadline),
    );
    this.#socket = createConnection({ ...options.endpoint, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
    this.#socket.on('connect', () => {
      this.#connected = true;
      if (this.#sasl === null) {
        this.#socket.write(SIMPLE_PREAMBLE);
        this.#open('user' in caller ? { effectiveUser: caller.user } : {});
      } else {
        this.#socket.write(Buffer.concat([SASL_PREAMBLE, this.#saslFrame(this.#sasl.start())]));
      }
    });
    this.#socket.on('data', (chunk) => this.#received(chunk));
    this.#socket.on('error', (error) => this.#fail(this.#ended(error)));
    this.#socket.on('close', () => this.#fail(this.#ended(null)));
  }

  /** Resolves when the connection is ready for calls. */
  opened(): Promise<void> {
    return this.#opened;
  }

  get usable(): boolean {
    return this.#state !== 'closed';
  }

  /**
   * Sends a call and returns the response message. Rejects with a RemoteError if the server responds with an exception, and with the
   * connection's error if the connection fails. Rejects with RPC_UNAVAILABLE if no response arrives in time. The server may still have executed
   * the call in this case.
   */
  async call<Request extends keyof HadoopMessages>(
    method: string,
    requestName: Request,
    request: HadoopMessages[Request],
    timeoutMs: number,
  ): Promise<Buffer> {
    await this.#opened;
    if (this.#failure !== null) {
      throw this.#failure;
    }
    if (this.#pending.size + this.#abandoned.size >= MAX_CALLS_IN_FLIGHT) {
      throw new TonyError('RPC_UNAVAILABLE', `${MAX_CALLS_IN_FLIGHT} calls to ${this.#where} are pending.`);
    }
    const { protocol } = this.#options;
    const callId = this.#nextCallId;
    const frame = encodeFrame(
      this.#requestHeader(callId, this.#options.clientId, 0),
      encodeDelimited('RequestHeaderProto', {
        methodName: method,
        declaringClassProtocolName: protocol.name,
        clientProtocolVersion: String(protocol.version),
      }),
      encodeDelimited(requestName, request),
    );
    this.#nextCallId = (callId + 1) & 0x7fffffff;
    return await new Promise<Buffer>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(callId);
        this.#abandoned.add(callId);
        reject(new TonyError('RPC_UNAVAILABLE', `${this.#where} did not respond to ${method} within ${timeoutMs} ms.`));
      }, timeoutMs);
      this.#pending.set(callId, { method, timer, resolve, reject });
      this.#send(frame);
    });
  }

  /** Closes the connection and rejects pending calls with RPC_ENDED. */
  close(): void {
    this.#fail(new TonyError('RPC_ENDED', `The connection to ${this.#where} was closed.`));
  }

  #received(chunk: Buffer): void {
    if (this.#state === 'closed') {
      return;
    }
    try {
      for (const frame of this.#outer.push(chunk)) {
        this.#frame(frame);
        if (this.#failure !== null) {
          return;
        }
      }
    } catch (error) {
      // An invalid message makes the connection unusable, because the start of the next message is unknown.
      this.#fail(
        error instanceof TonyError
          ? error
          : new TonyError('RPC_MISMATCH', `${this.#where} sent an invalid message: ${messageOf(error)}.`, { cause: error }),
      );
    }
  }

  #frame(frame: Buffer): void {
    const { header, body } = responseOf(frame);
    if (this.#layer !== null) {
      this.#protectedFrame(header, body, this.#layer);
    } else if (header.status === 'FATAL') {
      this.#fail(this.#remoteError(header, 'the connection', true));
    } else if (this.#state === 'open') {
      this.#response(header, body);
    } else if (header.callId === SASL_CALL) {
      this.#saslReceived(header, body);
    } else {
      throw new Error('a response to a call before authentication was complete');
    }
  }

  /** Throws for frames without protection, because an attacker on the network may have sent them. */
  #protectedFrame(header: ResponseHeader, body: Buffer, layer: SecurityLayer): void {
    if (header.callId !== SASL_CALL || header.status !== 'SUCCESS') {
      throw new Error(`an unprotected frame (${header.status}) on a protected connection`);
    }
    const message = decodeMessage('RpcSaslProto', splitDelimited(body, 0).message);
    if (message.state !== 'WRAP' || message.token === undefined) {
      throw new Error(`${message.state} after authentication`);
    }
    for (const inner of this.#inner.push(layer.unwrap(message.token))) {
      const response = responseOf(inner);
      if (response.header.status === 'FATAL') {
        this.#fail(this.#remoteError(response.header, 'the connection', true));
        return;
      }
      this.#response(response.header, response.body);
    }
  }

  #saslReceived(header: ResponseHeader, body: Buffer): void {
    if (header.status !== 'SUCCESS') {
      this.#fail(this.#remoteError(header, 'the authentication', true));
      return;
    }
    const message = decodeMessage('RpcSaslProto', splitDelimited(body, 0).message);
    if (this.#sasl !== null) {
      this.#authenticate(message, this.#sasl);
    }
  }

  #authenticate(message: HadoopMessages['RpcSaslProto'], sasl: SaslClient): void {
    let step: SaslStep;
    try {
      step = sasl.step(message);
    } catch (error) {
      const hint =
        error instanceof WeakProtection ? { hint: 'Set hadoop.rpc.protection in core-site.xml to the value that the cluster uses.' } : {};
      this.#fail(new TonyError('RPC_DENIED', `Authentication at ${this.#where} failed: ${messageOf(error)}.`, { ...hint, cause: error }));
      return;
    }
    if (!step.done) {
      this.#socket.write(this.#saslFrame(step.send));
      return;
    }
    this.#layer = step.layer;
    this.#open({});
  }

  #open(userInfo: HadoopMessages['UserInformationProto']): void {
    this.#state = 'open';
    this.#send(
      encodeFrame(
        this.#requestHeader(CONTEXT_CALL, this.#options.clientId, -1),
        encodeDelimited('IpcConnectionContextProto', { userInfo, protocol: this.#options.protocol.name }),
      ),
    );
    this.#settleOpened?.resolve();
    this.#settleOpened = null;
  }

  #response(header: ResponseHeader, body: Buffer): void {
    const callId = header.callId;
    const call = this.#pending.get(callId);
    if (call === undefined) {
      if (this.#abandoned.delete(callId)) {
        return;
      }
      throw new Error(`a response to call ${callId}, which this client has not made`);
    }
    this.#pending.delete(callId);
    clearTimeout(call.timer);
    if (header.status !== 'SUCCESS') {
      call.reject(this.#remoteError(header, call.method, false));
      return;
    }
    let message: Buffer;
    try {
      message = splitDelimited(body, 0).message;
    } catch (error) {
      call.reject(new TonyError('RPC_MISMATCH', `${this.#where} sent a malformed response to ${call.method}: ${messageOf(error)}.`));
      throw error;
    }
    call.resolve(message);
  }

  #send(frame: Buffer): void {
    if (this.#layer === null) {
      this.#socket.write(frame);
      return;
    }
    for (const token of this.#layer.wrap(frame)) {
      this.#socket.write(this.#saslFrame({ state: 'WRAP', token, auths: [] }));
    }
  }

  #saslFrame(message: HadoopMessages['RpcSaslProto']): Buffer {
    return encodeFrame(this.#requestHeader(SASL_CALL, new Uint8Array(), -1), encodeDelimited('RpcSaslProto', message));
  }

  /** Encodes a request header. `rpcOp` must be set explicitly, although the value of RPC_FINAL_PACKET is 0. */
  #requestHeader(callId: number, clientId: Uint8Array, retryCount: number): Buffer {
    return encodeDelimited('RpcRequestHeaderProto', {
      rpcKind: 'RPC_PROTOCOL_BUFFER',
      rpcOp: 'RPC_FINAL_PACKET',
      callId,
      clientId,
      retryCount,
    });
  }

  #remoteError(header: ResponseHeader, what: string, fatal: boolean): RemoteError {
    return new RemoteError({
      action: `${what} at ${this.#where}`,
      exceptionClassName: header.exceptionClassName ?? '',
      errorMessage: header.errorMsg ?? '',
      fatal,
    });
  }

  #ended(error: Error | null): TonyError {
    const why = error === null ? '' : `: ${messageOf(error)}`;
    const options = error === null ? {} : { cause: error };
    if (!this.#connected) {
      return new TonyError('RPC_UNREACHABLE', `${this.#where} is not reachable${why}.`, options);
    }
    // A server that rejects the token closes the connection without a response.
    if (this.#state === 'authenticating') {
      return new TonyError('RPC_DENIED', `${this.#where} closed the connection during authentication${why}.`, options);
    }
    const cut = this.#outer.pending + this.#inner.pending > 0 ? ' within a response' : '';
    return new TonyError('RPC_UNREACHABLE', `${this.#where} closed the connection${cut}${why}.`, options);
  }

  /** Closes the connection and rejects all pending calls. Ignores all further errors. */
  #fail(error: TonyError): void {
    if (this.#failure !== null) {
      return;
    }
    this.#failure = error;
    this.#state = 'closed';
    this.#socket.destroy();
    this.#settleOpened?.reject(error);
    this.#settleOpened = null;
    const calls = [...this.#pending.values()];
    this.#pending.clear();
    this.#abandoned.clear();
    for (const call of calls) {
      clearTimeout(call.timer);
      call.reject(error);
    }
  }
}

/** Parses a response header. The conversion to int32 restores negative call IDs, because -n arrives as 2^32 - n. */
function responseOf(frame: Buffer): { header: ResponseHeader; body: Buffer } {
  const { message, next } = splitDelimited(frame, 0);
  const header = decodeMessage('RpcResponseHeaderProto', message);
  return { header: { ...header, callId: header.callId | 0 }, body: frame.subarray(next) };
}
