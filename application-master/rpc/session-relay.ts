import { randomBytes } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { withTimeout } from '../../platform/async/deadline.ts';
import type { Logger } from '../../platform/log.ts';
import type { SessionStream } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { RunningContainer } from '../job/state/running-container.ts';

/** Timeout in ms for an executor to join a session. */
const JOIN_MS = 15_000;
const MISSING = { task: status.NOT_FOUND, program: status.FAILED_PRECONDITION, state: status.ABORTED } as const;
/** Maximum number of concurrent sessions with a container. */
const MOST_OF_CONTAINER = 64;

export interface SessionRelayOptions {
  readonly runningContainer: (role: string, index: number) => RunningContainer;
  /** Orders the executor to join a session. Returns false if the executor is not connected. */
  readonly order: (containerId: string, id: string) => boolean;
  readonly log: Logger;
}

interface Waiting {
  readonly containerId: string;
  readonly joined: (stream: SessionStream) => void;
}

/** Connects each client's stream to a stream that an executor opens, and relays messages between the two. */
export class SessionRelay {
  readonly #options: SessionRelayOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #counts = new Map<string, number>();

  constructor(options: SessionRelayOptions) {
    this.#options = options;
  }

  /** Relays an authenticated client's session until either side closes it. */
  async open(client: SessionStream, request: TonyMessages['SessionRequest']): Promise<void> {
    const container = this.#options.runningContainer(request.role, request.index);
    if ('missing' in container) {
      client.refuse(MISSING[container.missing], container.why);
      return;
    }
    const { containerId } = container;
    const count = this.#counts.get(containerId) ?? 0;
    if (count >= MOST_OF_CONTAINER) {
      const maximum = `${request.role}:${request.index} already has the maximum of ${MOST_OF_CONTAINER} sessions.`;
      client.refuse(status.RESOURCE_EXHAUSTED, maximum);
      return;
    }
    this.#counts.set(containerId, count + 1);
    try {
      const executor = await this.#join(client, containerId);
      if (executor !== null) {
        const kind = request.command ? 'command' : 'port';
        this.#options.log.info({ task: `${request.role}:${request.index}`, kind }, "a session of the job's user has started");
        await relay(client, executor, request);
      }
    } finally {
      const left = (this.#counts.get(containerId) ?? 1) - 1;
      if (left > 0) {
        this.#counts.set(containerId, left);
      } else {
        this.#counts.delete(containerId);
      }
    }
  }

  /** Receives a stream that an executor has opened. Returns false if the container has no such session. */
  join(containerId: string, id: string, stream: SessionStream): boolean {
    const waiting = this.#waiting.get(id);
    if (waiting?.containerId !== containerId) {
      return false;
    }
    this.#waiting.delete(id);
    waiting.joined(stream);
    return true;
  }

  /**
   * Orders the executor to join the session, and returns the executor's stream. If the executor does not join in time, refuses the client
   * and returns null.
   */
  async #join(client: SessionStream, containerId: string): Promise<SessionStream | null> {
    const id = randomBytes(16).toString('hex');
    const joining = new Promise<SessionStream>((joined) => this.#waiting.set(id, { containerId, joined }));
    try {
      if (!this.#options.order(containerId, id)) {
        client.refuse(status.ABORTED, "The task's executor is not connected to the ApplicationMaster.");
        return null;
      }
      const executor = await withTimeout(Promise.race([joining, client.closed.then(() => null)]), JOIN_MS, () => null);
      if (executor === null) {
        client.refuse(status.DEADLINE_EXCEEDED, `The task's executor did not answer within ${JOIN_MS / 1000} s.`);
      }
      return executor;
    } finally {
      this.#waiting.delete(id);
    }
  }
}

/** Resolves when the session has ended. */
async function relay(client: SessionStream, executor: SessionStream, request: TonyMessages['SessionRequest']): Promise<void> {
  client.receive((message) =>
    pass(message, executor, message.data?.channel === 'INPUT' || message.endOfData !== undefined || message.window !== undefined),
  );
  executor.receive((message) => pass(message, client, message.request === undefined && message.joining === undefined));
  await executor.send({ request });
  await Promise.race([client.closed, executor.closed]);
  client.close();
  executor.close();
}

/** Relays a message, or closes the session if the sender must not send such a message. */
function pass(message: TonyMessages['SessionMessage'], to: SessionStream, isAllowed: boolean): Promise<void> {
  if (!isAllowed) {
    throw new Error('unexpected message in a session');
  }
  return to.send(message);
}
