import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import type { Token } from '../rpc/credentials.ts';
import { type Cipher, type DigestInput, digestProof, layerKeys, parseDirectives, type Qop, sessionKey } from '../rpc/digest-md5.ts';
import { encodeFrame, FrameReader } from '../rpc/frame.ts';
import { decodeMessage, encodeDelimited, splitDelimited } from '../rpc/messages.ts';
import { type SecurityLayer, securityLayer } from '../rpc/security-layer.ts';

export interface FakeCall {
  readonly method: string;
  readonly protocol: string;
  readonly callId: number;
  /** The encoded request. The message type depends on the method. */
  readonly request: Buffer;
  readonly connection: FakeConnection;
}

/** A response that contains only the fields that a test needs. */
type Success = {
  [Name in keyof HadoopMessages]: { readonly success: Name; readonly message: Sparse<HadoopMessages[Name]> };
}[keyof HadoopMessages];

type Sparse<Value> = Value extends Uint8Array
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly Sparse<Item>[]
    : Value extends object
      ? { readonly [Field in keyof Value]?: Sparse<Value[Field]> | undefined }
      : Value;

export type Answer =
  | Success
  | { readonly error: string; readonly message: string }
  | { readonly fatal: string; readonly message: string }
  /** If this is null, the daemon does not respond. */
  | null;

export interface FakeDaemonOptions {
  readonly answer: (call: FakeCall) => Answer | Promise<Answer>;
  /** Returns the tokens that the daemon accepts. The daemon rejects all other tokens with InvalidToken. */
  readonly tokens: () => readonly Token[];
  readonly qop?: Qop;
  readonly cipher?: Cipher;
  /** Port on which the daemon listens. Defaults to a free port. */
  readonly port?: number;
}

/** Simulates a Hadoop daemon's RPC interface over TCP. Used for behaviour that a real daemon shows only rarely. */
export class FakeDaemon {
  readonly calls: FakeCall[] = [];
  readonly connections: FakeConnection[] = [];
  readonly #server: Server;
  #port = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(options: FakeDaemonOptions): Promise<FakeDaemon> {
    const server = createServer();
    const daemon = new FakeDaemon(server);
    server.on('connection', (socket) => {
      daemon.connections.push(
        new FakeConnection(socket, options, (call) => {
          daemon.calls.push(call);
        }),
      );
    });
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(options.port ?? 0, '127.0.0.1', resolve));
    const address = server.address();
    if (address !== null && typeof address !== 'string') {
      daemon.#port = address.port;
    }
    return daemon;
  }

  get endpoint(): { host: string; port: number } {
    return { host: '127.0.0.1', port: this.#port };
  }

  methods(): string[] {
    return this.calls.map(({ method }) => method);
  }

  /** Simulates a killed process: closes the listening socket and all connections, without notifying the clients. */
  async stop(): Promise<void> {
    for (const connection of this.connections) {
      connection.socket.destroy();
    }
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

export class FakeConnection {
  readonly socket: Socket;
  readonly #options: FakeDaemonOptions;
  readonly #onCall: (call: FakeCall) => void;
  readonly #outer = new FrameReader(2 ** 26);
  readonly #inner = new FrameReader(2 ** 26);
  #greeted = false;
  #nonce = '';
  #layer: SecurityLayer | null = null;
  #head = Buffer.alloc(0);

  constructor(socket: Socket, options: FakeDaemonOptions, onCall: (call: FakeCall) => void) {
    this.socket = socket;
    this.#options = options;
    this.#onCall = onCall;
    socket.on('error', () => {});
    socket.on('data', (chunk) => this.#received(chunk));
  }

  respond(callId: number, answer: Exclude<Answer, null>): void {
    const status = 'success' in answer ? 'SUCCESS' : 'error' in answer ? 'ERROR' : 'FATAL';
    const header: HadoopMessages['RpcResponseHeaderProto'] = {
      callId: callId >>> 0,
      status,
      serverIpcVersionNum: 9,
      ...('success' in answer
        ? {}
        : {
            exceptionClassName: 'error' in answer ? answer.error : answer.fatal,
            errorMsg: `${answer.message}\n\tat org.example.Fake(Fake.java:1)`,
          }),
    };
    const messages = [encodeDelimited('RpcResponseHeaderProto', header)];
    if ('success' in answer) {
      messages.push(encodeDelimited(answer.success, answer.message as HadoopMessages[typeof answer.success]));
    }
    this.send(encodeFrame(...messages));
    if (status === 'FATAL') {
      this.socket.end();
    }
  }

  send(frame: Buffer): void {
    if (this.#layer === null) {
      this.socket.write(frame);
    } else {
      for (const token of this.#layer.wrap(frame)) {
        this.#sasl({ state: 'WRAP', token, auths: [] });
      }
    }
  }

  #received(chunk: Buffer): void {
    let bytes = chunk;
    if (!this.#greeted) {
      this.#head = Buffer.concat([this.#head, chunk]);
      if (this.#head.length < 7) {
        return;
      }
      this.#greeted = true;
      bytes = this.#head.subarray(7);
    }
    for (const frame of this.#outer.push(bytes)) {
      this.#frame(frame);
    }
  }

  #frame(frame: Buffer): void {
    const { message: headerBytes, next } = splitDelimited(frame, 0);
    const header = decodeMessage('RpcRequestHeaderProto', headerBytes);
    const { message, next: rest } = splitDelimited(frame, next);
    if (header.callId === -33) {
      this.#saslReceived(decodeMessage('RpcSaslProto', message));
    } else if (header.callId >= 0) {
      void this.#call(header.callId, message, splitDelimited(frame, rest).message);
    }
  }

  async #call(callId: number, headerBytes: Buffer, request: Buffer): Promise<void> {
    const header = decodeMessage('RequestHeaderProto', headerBytes);
    const call = {
      method: header.methodName,
      protocol: header.declaringClassProtocolName,
      callId,
      request: Buffer.from(request),
      connection: this,
    };
    this.#onCall(call);
    const answer = await this.#options.answer(call);
    if (answer !== null && this.socket.writable) {
      this.respond(callId, answer);
    }
  }

  #saslReceived(message: HadoopMessages['RpcSaslProto']): void {
    switch (message.state) {
      case 'NEGOTIATE':
        this.#negotiate();
        return;
      case 'INITIATE':
        this.#initiate(message);
        return;
      case 'WRAP':
        if (this.#layer !== null && message.token !== undefined) {
          for (const frame of this.#inner.push(this.#layer.unwrap(message.token))) {
            this.#frame(frame);
          }
        }
        return;
      default:
        this.socket.destroy();
    }
  }

  #negotiate(): void {
    this.#nonce = randomBytes(24).toString('base64');
    const { qop = 'auth', cipher } = this.#options;
    const challenge = `realm="default",nonce="${this.#nonce}",qop="${qop}",charset=utf-8,algorithm=md5-sess${cipher ? `,cipher="${cipher}"` : ''}`;
    this.#sasl({
      state: 'NEGOTIATE',
      auths: [
        {
          method: 'TOKEN',
          mechanism: 'DIGEST-MD5',
          protocol: '',
          serverId: 'default',
          challenge: Buffer.from(challenge),
        },
      ],
    });
  }

  #initiate(message: HadoopMessages['RpcSaslProto']): void {
    const directives = parseDirectives(Buffer.from(message.token ?? []).toString('utf8'));
    const user = directives.get('username') ?? '';
    const token = this.#options.tokens().find(({ identifier }) => Buffer.from(identifier).toString('base64') === user);
    if (token === undefined) {
      this.respond(-33, { fatal: 'org.apache.hadoop.security.token.SecretManager$InvalidToken', message: 'the attempt is not found' });
      return;
    }
    const input: DigestInput = {
      user,
      password: Buffer.from(token.password.reveal()).toString('base64'),
      realm: 'default',
      nonce: this.#nonce,
      cnonce: directives.get('cnonce') ?? '',
      uri: '/default',
      qop: this.#options.qop ?? 'auth',
    };
    const ha1 = sessionKey(input);
    if (directives.get('response') !== digestProof(ha1, input, 'AUTHENTICATE')) {
      this.respond(-33, {
        fatal: 'javax.security.sasl.SaslException',
        message: 'DIGEST-MD5: digest response format violation. Mismatched response.',
      });
      return;
    }
    this.#sasl({ state: 'SUCCESS', token: Buffer.from(`rspauth=${digestProof(ha1, input, '')}`), auths: [] });
    if (input.qop !== 'auth') {
      const keys = layerKeys(ha1);
      const peer = {
        clientIntegrity: keys.serverIntegrity,
        serverIntegrity: keys.clientIntegrity,
        clientSealing: keys.serverSealing,
        serverSealing: keys.clientSealing,
      };
      this.#layer = securityLayer(peer, input.qop === 'auth-conf' ? (this.#options.cipher ?? '3des') : null, 65_536);
    }
  }

  #sasl(message: HadoopMessages['RpcSaslProto']): void {
    const header = { callId: -33 >>> 0, status: 'SUCCESS' as const, serverIpcVersionNum: 9, clientId: Buffer.alloc(0), retryCount: -1 };
    this.socket.write(encodeFrame(encodeDelimited('RpcResponseHeaderProto', header), encodeDelimited('RpcSaslProto', message)));
  }
}
