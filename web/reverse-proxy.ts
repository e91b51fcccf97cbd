import { Agent, type ClientRequestArgs, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { TensorBoardTarget } from './tensorboard-target.ts';

/** What is asked of the upstream server. */
export interface UpstreamRequest {
  readonly method: string;
  /** With its query, beginning with a slash. */
  readonly path: string;
  /** Lower-case names. What this hop or the person's access is about stays behind. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | null;
}

/** `absent`: nobody answers there now. `late`: the deadline passed. `busy`: too many requests are under way. */
export class UpstreamError extends Error {
  readonly kind: 'absent' | 'late' | 'busy';

  constructor(kind: UpstreamError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** For a connection; until an answer's headers (TensorBoard reads its files for some); in ms. */
const CONNECT_MS = 5_000;
const ANSWER_MS = 60_000;
/** A connection that nobody uses is closed. */
const IDLE_MS = 15_000;
const MAX_CONNECTIONS = 16;
const MAX_IDLE = 4;
const MAX_UNDER_WAY = 256;

/**
 * The only headers of a request that go on. Cookies, Authorization and what says who asks from where stay here; Host is ours.
 */
const PASSED_ON = [
  'accept',
  'accept-language',
  'content-type',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'range',
  'user-agent',
  'x-tensorboard-feature-flags',
  'x-xsrf-protected',
];

/** Asks TensorBoard over connections that its target makes; they are kept for a moment and used again. */
export class ReverseProxy {
  readonly #target: TensorBoardTarget;
  readonly #agent: ConnectingAgent;
  /** Each of its connections is a new one. */
  readonly #agentAfresh: ConnectingAgent;
  #underWay = 0;

  constructor(target: TensorBoardTarget) {
    this.#target = target;
    this.#agent = new ConnectingAgent(target, { keepAlive: true });
    this.#agentAfresh = new ConnectingAgent(target, { keepAlive: false });
  }

  /**
   * The answer, its body unread; whoever gets it reads or destroys it.
   * @throws UpstreamError, or the reason of `signal`
   */
  async ask(asked: UpstreamRequest, signal: AbortSignal): Promise<IncomingMessage> {
    if (this.#target.connect === null) throw new UpstreamError('absent', 'there is no TensorBoard');
    if (this.#underWay >= MAX_UNDER_WAY) throw new UpstreamError('busy', `${MAX_UNDER_WAY} requests are under way`);
    this.#underWay++;
    try {
      const answered = await this.#try(asked, signal, this.#agent).catch((error: unknown) => {
        // The other end may close its idle connections just when one is used again; a new one tells whether it is there.
        if (error instanceof StaleConnection) return this.#try(asked, signal, this.#agentAfresh);
        throw error;
      });
      answered.once('close', () => this.#underWay--);
      return answered;
    } catch (error) {
      this.#underWay--;
      throw error;
    }
  }

  close(): void {
    this.#agent.destroy();
    this.#agentAfresh.destroy();
  }

  #try({ method, path, headers, body }: UpstreamRequest, signal: AbortSignal, agent: Agent): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const passed = Object.fromEntries(PASSED_ON.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])));
      const outgoing = httpRequest({
        agent,
        method,
        path,
        signal,
        headers: {
          ...passed,
          Host: 'tensorboard',
          // What is rewritten is unpacked here: no more than we can read is offered.
          'Accept-Encoding': 'gzip',
          ...(body !== null && { 'Content-Length': body.length }),
        },
      });
      const timer = setTimeout(() => outgoing.destroy(new UpstreamError('late', `no answer within ${ANSWER_MS / 1000} s`)), ANSWER_MS);
      outgoing.once('response', (answered) => {
        clearTimeout(timer);
        resolve(answered);
      });
      // Stays for all of the exchange: what comes after the headers shows on the answer as well.
      outgoing.on('error', (error) => {
        clearTimeout(timer);
        if (signal.aborted || error instanceof UpstreamError) reject(signal.aborted ? signal.reason : error);
        else if (outgoing.reusedSocket) reject(new StaleConnection(error.message, { cause: error }));
        else reject(new UpstreamError('absent', error.message, { cause: error }));
      });
      outgoing.end(body ?? undefined);
    });
  }
}

class StaleConnection extends Error {}

class ConnectingAgent extends Agent {
  readonly #target: TensorBoardTarget;

  constructor(target: TensorBoardTarget, { keepAlive }: { readonly keepAlive: boolean }) {
    super({ keepAlive, maxSockets: MAX_CONNECTIONS, maxFreeSockets: MAX_IDLE, timeout: IDLE_MS });
    this.#target = target;
  }

  override createConnection(_options: ClientRequestArgs): Duplex {
    try {
      const connection = this.#target.connect?.();
      if (connection === undefined) throw new Error('there is no TensorBoard');
      closeUnlessConnected(connection);
      return connection;
    } catch (error) {
      // Thrown here, it would end whichever request freed the place for this one.
      const failed = new Duplex({ read() {}, write() {} });
      process.nextTick(() => failed.destroy(error as Error));
      return failed;
    }
  }

  /** Only a socket can be kept. */
  override keepSocketAlive(connection: Duplex): boolean {
    if (!(connection instanceof Socket)) return false;
    // Documented to return whether; declared to return nothing.
    return (super.keepSocketAlive(connection) as unknown as boolean | undefined) !== false;
  }
}

function closeUnlessConnected(connection: Duplex): void {
  if (!(connection instanceof Socket) || !connection.connecting) return;
  const late = (): void => void connection.destroy(new UpstreamError('late', `no connection within ${CONNECT_MS / 1000} s`));
  const timer = setTimeout(late, CONNECT_MS);
  const done = (): void => clearTimeout(timer);
  connection.once(connection instanceof TLSSocket ? 'secureConnect' : 'connect', done).once('close', done);
}
