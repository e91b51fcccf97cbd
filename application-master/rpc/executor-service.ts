import { createHmac } from 'node:crypto';
import { Metadata, Server, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import type { Member } from '../../contract/process/task-context.ts';
import { type Credentials, credentialsForTasks, encodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { sameSecret } from '../../platform/same-secret.ts';
import type { Secret } from '../../platform/secret.ts';
import { addService, onMessage, type ServerStream } from '../../protos/services.ts';
import { SessionStream } from '../../protos/session-stream.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { asGeneration, type Generation } from '../job/state/counters.ts';
import type { ProgramExit, Progress, UntimedEvent } from '../job/state/events.ts';
import type { ServiceCall } from '../services/services.ts';
import { listenPinned, onStreamEnd, type PinnedListener } from './pinned-server.ts';

type ServeCall = ServerUnaryCall<TonyMessages['ServiceRequest'], TonyMessages['ServiceAnswer']>;
type ExecutorStream = ServerStream<'ExecutorMessage', 'MasterMessage'>;

/**
 * Maximum number of concurrent requests per container. A service may take seconds to respond, but a program sends only a few requests at a
 * time.
 */
const CALLS_OF_CONTAINER = 32;
const HELLO_DEADLINE_MS = 10_000;
/** Timeout in ms for the first message on a `Join` stream. */
const JOINING_MS = 10_000;

export interface ExecutorServiceOptions {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly jobSecret: Secret;
  readonly attempt: number;
  /**
   * Returns the task to which the container is assigned. Returns null if the container is not part of the job, and undefined while an
   * earlier attempt's state is being read.
   */
  readonly assignmentOf: (containerId: string) => { role: string; index: number } | null | undefined;
  readonly welcomeFor: (role: string) => Omit<TonyMessages['Welcome'], 'masterAttempt'>;
  readonly hear: (event: UntimedEvent) => void;
  /** Handles a program's request. Returns null if another attempt has taken over. */
  readonly serve: (call: Omit<ServiceCall, 'ranked'>) => Promise<TonyMessages['ServiceAnswer'] | null>;
  /** Receives the stream that a container has opened for a session. Returns false if the container has no such session. */
  readonly join: (containerId: string, id: string, stream: SessionStream) => boolean;
  readonly log: Logger;
}

/** Serves the executors' streams: authenticates executors and converts their messages to events for the job machine. */
export class ExecutorService {
  readonly #options: ExecutorServiceOptions;
  readonly #server = new Server({ 'grpc.max_receive_message_length': 1 << 20, 'grpc.keepalive_permit_without_calls': 1 });
  readonly #streams = new Map<string, ExecutorStream>();
  readonly #calls = new Map<string, number>();
  /** The newest tokens in encoded form, or null if new executors already start with these tokens. */
  #tokens: Uint8Array | null = null;
  #listener: PinnedListener | null = null;
  #closed = false;

  constructor(options: ExecutorServiceOptions) {
    this.#options = options;
    addService(this.#server, 'ApplicationMaster', {
      Attach: (stream) => this.#attach(stream),
      Serve: (call, answer) => void this.#serve(call, answer),
      Join: (stream) => void this.#join(new SessionStream(stream)),
    });
  }

  async listen(address: string): Promise<number> {
    this.#listener = await listenPinned(this.#server, address, { ...this.#options, clients: 'certificate' });
    return this.#listener.port;
  }

  prepare(containerId: string, generation: Generation): void {
    this.#send(containerId, { prepare: { generation } });
  }

  start(containerId: string, generation: Generation, members: readonly Member[]): void {
    const sent = members.map(({ taskRank, ...member }) => (taskRank === null ? member : { ...member, rank: taskRank }));
    this.#send(containerId, { start: { generation, members: sent } });
  }

  stop(containerId: string, reason: string, atOnce: boolean): void {
    this.#send(containerId, { stop: { reason, atOnce } });
  }

  orderCheckpoint(containerId: string, generation: Generation): void {
    this.#send(containerId, { checkpoint: { generation } });
  }

  /** Orders an executor to open a stream for a session. Returns false if the executor is not connected. */
  orderSession(containerId: string, id: string): boolean {
    this.#send(containerId, { session: { id } });
    return this.#streams.has(containerId);
  }

  /** Passes new delegation tokens to all executors, including those that connect later. */
  replaceTokens(credentials: Credentials): void {
    this.#tokens = encodeCredentials(credentialsForTasks(credentials, new Map()));
    for (const containerId of this.#streams.keys()) {
      // Skip containers that are not part of the job, because they are about to stop.
      if (this.#options.assignmentOf(containerId) !== null) {
        this.#send(containerId, { tokens: { credentials: this.#tokens } });
      }
    }
  }

  close(): void {
    this.#closed = true;
    for (const stream of this.#streams.values()) {
      stream.end();
    }
    this.#streams.clear();
    this.#listener?.close();
    this.#server.forceShutdown();
  }

  /** Sends a message, or drops it if the executor has no stream. After the next Hello, the job machine sends its order again. */
  #send(containerId: string, message: TonyMessages['MasterMessage']): void {
    this.#streams.get(containerId)?.write(message);
  }

  #attach(stream: ExecutorStream): void {
    let containerId: string | null = null;
    const deadline = setTimeout(() => this.#refuse(stream, status.DEADLINE_EXCEEDED, 'no Hello arrived in time'), HELLO_DEADLINE_MS);
    const ended = (): void => {
      clearTimeout(deadline);
      if (containerId === null || this.#streams.get(containerId) !== stream) {
        return;
      }
      this.#streams.delete(containerId);
      if (!this.#closed) {
        this.#options.hear({ type: 'stream-lost', containerId });
      }
    };
    onMessage(stream, (message) => {
      try {
        if (containerId !== null) {
          if (this.#streams.get(containerId) === stream) {
            this.#received(containerId, message);
          }
          return;
        }
        clearTimeout(deadline);
        containerId = this.#welcome(stream, message.hello ?? null);
      } catch (error) {
        this.#options.log.error({ error: messageOf(error) }, 'could not process a message from an executor');
        this.#refuse(stream, status.INTERNAL, messageOf(error));
      }
    });
    onStreamEnd(stream, ended);
  }

  /** Authenticates a Hello and returns the container's ID. If the Hello is not valid, rejects the stream and returns null. */
  #welcome(stream: ExecutorStream, hello: TonyMessages['Hello'] | null): string | null {
    const { attempt, log } = this.#options;
    if (hello === null || !this.#isProof(hello)) {
      log.warn({ container: hello?.containerId }, 'rejected an executor without a valid proof of its container');
      this.#refuse(stream, status.PERMISSION_DENIED, 'the executor has no valid proof of its container');
      return null;
    }
    const { containerId } = hello;
    if (hello.masterAttempt > attempt) {
      // Reject this executor, because it has been connected to a newer attempt and will find that attempt again.
      log.error({ container: containerId, newer: hello.masterAttempt }, 'another ApplicationMaster attempt has taken over');
      this.#refuse(stream, status.ABORTED, 'a newer ApplicationMaster has taken over');
      return null;
    }
    if (this.#options.assignmentOf(containerId) === undefined) {
      this.#refuse(stream, status.UNAVAILABLE, 'the job is being restored');
      return null;
    }
    // Also accept containers that are not part of the job, so that the job machine can order them to stop.
    this.#streams.get(containerId)?.end();
    this.#streams.set(containerId, stream);
    stream.write({ welcome: { ...this.#options.welcomeFor(hello.role), masterAttempt: attempt } });
    if (this.#tokens !== null && this.#options.assignmentOf(containerId) !== null) {
      stream.write({ tokens: { credentials: this.#tokens } });
    }
    for (const event of eventsOf(hello)) {
      this.#options.hear(event);
    }
    return containerId;
  }

  #refuse(stream: ExecutorStream, code: status, details: string): void {
    const metadata = new Metadata();
    // Send the attempt number, so that an executor can ignore rejections from an outdated attempt.
    metadata.set('tony-attempt', String(this.#options.attempt));
    stream.emit('error', { code, details, metadata });
  }

  async #serve(call: ServeCall, answer: sendUnaryData<TonyMessages['ServiceAnswer']>): Promise<void> {
    const { containerId, generation, service, body } = call.request;
    const refuse = (code: status, details: string): void => answer({ code, details });
    if (!this.#isProof(call.request)) {
      return refuse(status.PERMISSION_DENIED, 'the executor has no valid proof of its container');
    }
    const assignment = this.#options.assignmentOf(containerId);
    if (assignment === undefined) {
      return refuse(status.UNAVAILABLE, 'the job is being restored');
    }
    if (assignment === null) {
      return refuse(status.FAILED_PRECONDITION, 'this container is no longer part of the job');
    }
    const calls = this.#calls.get(containerId) ?? 0;
    if (calls >= CALLS_OF_CONTAINER) {
      return refuse(status.RESOURCE_EXHAUSTED, 'too many concurrent requests');
    }
    this.#calls.set(containerId, calls + 1);
    const gone = new AbortController();
    call.on('cancelled', () => gone.abort());
    try {
      const given = await this.#options.serve({ containerId, role: assignment.role, generation, service, body, signal: gone.signal });
      if (given === null) {
        refuse(status.UNAVAILABLE, 'a newer ApplicationMaster has taken over');
      } else {
        answer(null, given);
      }
    } catch (error) {
      this.#options.log.error({ error: messageOf(error), service }, 'a service failed');
      refuse(status.INTERNAL, messageOf(error));
    } finally {
      const left = (this.#calls.get(containerId) ?? 1) - 1;
      if (left > 0) {
        this.#calls.set(containerId, left);
      } else {
        this.#calls.delete(containerId);
      }
    }
  }

  async #join(stream: SessionStream): Promise<void> {
    const first = await withTimeout(stream.first(), JOINING_MS, () => null);
    if (!first?.joining || !this.#isProof(first.joining)) {
      stream.refuse(status.PERMISSION_DENIED, 'the executor has no valid proof of its container');
    } else if (!this.#options.join(first.joining.containerId, first.joining.id, stream)) {
      stream.refuse(status.NOT_FOUND, 'the container has no such session');
    }
  }

  #isProof(hello: Pick<TonyMessages['Hello'], 'containerId' | 'proof'>): boolean {
    return sameSecret(hello.proof, containerProof(this.#options.jobSecret, hello.containerId));
  }

  #received(containerId: string, message: TonyMessages['ExecutorMessage']): void {
    const { hear } = this.#options;
    if (message.heartbeat) {
      const { usage, progress, clock } = message.heartbeat;
      hear({
        type: 'heartbeat',
        containerId,
        generation: asGeneration(message.heartbeat.generation),
        usage,
        progress: progress ? progressOf(progress) : null,
        clock,
      });
    } else if (message.ready) {
      hear({ type: 'ready', containerId, generation: asGeneration(message.ready.generation), port: message.ready.port });
    } else if (message.started) {
      hear({ type: 'started', containerId, generation: asGeneration(message.started.generation), pid: message.started.pid });
    } else if (message.exited) {
      hear({ type: 'exited', containerId, exit: exitOf(message.exited) });
    } else if (message.left) {
      hear({ type: 'left', containerId });
    }
  }
}

/** Returns the secret that a container uses to prove its identity. Only the ApplicationMaster and this container know the secret. */
export function containerProof(jobSecret: Secret, containerId: string): Buffer {
  return createHmac('sha256', jobSecret.reveal()).update(`container|${containerId}`).digest();
}

export function ringKey(jobSecret: Secret): Buffer {
  return createHmac('sha256', jobSecret.reveal()).update('ring').digest();
}

/**
 * Converts a Hello to events. A Hello repeats everything that the program has reported. The report about a lost peer comes first, because
 * it explains the program's exit.
 */
function eventsOf(hello: TonyMessages['Hello']): UntimedEvent[] {
  const { containerId, role, index, host, port, clock } = hello;
  const generation = asGeneration(hello.generation);
  const phase = hello.phase === 'RUNNING' ? 'running' : hello.phase === 'ENDED' ? 'ended' : 'idle';
  const exit = hello.exited ? exitOf(hello.exited) : null;
  const progress = hello.progress ? progressOf(hello.progress) : null;
  const greeting = { type: 'hello', containerId, role, index, generation, host, port, clock } as const;
  if (progress === null) {
    return [{ ...greeting, phase, exit }];
  }
  const report: UntimedEvent = { type: 'heartbeat', containerId, generation, usage: null, progress, clock };
  if (exit === null || progress.lostRank === null) {
    return [{ ...greeting, phase, exit }, report];
  }
  return [{ ...greeting, phase: 'running', exit: null }, report, { type: 'exited', containerId, exit }];
}

function exitOf({ generation, code, signal, stderrTail, permanent = false, clock }: TonyMessages['Exited']): ProgramExit {
  return { generation: asGeneration(generation), code, signal, stderrTail, permanent, clock };
}

function progressOf({ step, metrics, checkpointStep, lostRank, notices, earlyEnd, ending, total }: TonyMessages['Progress']): Progress {
  return { step, metrics, checkpointStep, lostRank: lostRank ?? null, notices, earlyEnd, ending: ending ?? false, total: total ?? 0 };
}
