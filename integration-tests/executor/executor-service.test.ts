import { connect } from 'node:tls';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { pino } from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asGeneration } from '../../application-master/job/state/counters.ts';
import type { UntimedEvent } from '../../application-master/job/state/events.ts';
import { containerProof, ExecutorService } from '../../application-master/rpc/executor-service.ts';
import type { Secret } from '../../platform/secret.ts';
import { CERTIFICATE_NAME } from '../../protos/pinned-identity.ts';
import { clientConstructor, onMessage } from '../../protos/services.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { until } from '../until.ts';
import { type JobSecrets, newSecrets } from './test-master.ts';

const secrets = newSecrets();
const CONTAINER = 'container_1795225023264_0007_01_000002';
const MasterClient = clientConstructor('ApplicationMaster');

interface Service {
  readonly service: ExecutorService;
  readonly port: number;
  readonly events: UntimedEvent[];
  assignment: { role: string; index: number } | null | undefined;
}

async function serve(): Promise<Service> {
  const events: UntimedEvent[] = [];
  const state: { assignment: Service['assignment'] } = { assignment: { role: 'worker', index: 0 } };
  const service = new ExecutorService({
    ...secrets,
    attempt: 2,
    assignmentOf: (id) => (id === CONTAINER ? state.assignment : null),
    welcomeFor: () => ({ intervalMs: 500, leaseMs: 1000, command: 'true', env: {} }),
    hear: (happening) => events.push(happening),
    join: () => false,
    serve: async () => null,
    log: pino({ level: 'silent' }),
  });
  const port = await service.listen('127.0.0.1');
  onTestFinished(() => service.close());
  return Object.assign(state, { service, port, events });
}

interface Stream {
  readonly received: TonyMessages['MasterMessage'][];
  readonly ended: Promise<ServiceError>;
  send(message: TonyMessages['ExecutorMessage']): void;
}

function attach(port: number, hello: Partial<TonyMessages['Hello']> = {}, pair: JobSecrets | null = secrets): Stream {
  const pem = (secret: Secret): Buffer => Buffer.from(secret.reveal());
  const security = credentials.createSsl(pem(secrets.certificate), pair && pem(pair.privateKey), pair && pem(pair.certificate));
  const client = new MasterClient(`127.0.0.1:${port}`, security, { 'grpc.ssl_target_name_override': CERTIFICATE_NAME });
  const stream = client.Attach();
  onTestFinished(() => {
    stream.cancel();
    client.close();
  });
  const received: TonyMessages['MasterMessage'][] = [];
  onMessage(stream, (message) => received.push(message));
  const ended = new Promise<ServiceError>((resolve) => {
    stream.on('error', resolve);
    stream.on('end', () => resolve({ code: status.OK } as ServiceError));
  });
  stream.write({
    hello: {
      containerId: CONTAINER,
      proof: containerProof(secrets.jobSecret, CONTAINER),
      role: 'worker',
      index: 0,
      generation: 0,
      phase: 'IDLE',
      host: '127.0.0.1',
      port: 4711,
      masterAttempt: 1,
      exited: null,
      progress: null,
      clock: 10.5,
      ...hello,
    },
  });
  return { received, ended, send: (message) => stream.write(message) };
}

function welcomed(stream: Stream): Promise<unknown> {
  return until(() => stream.received[0]?.welcome, { describe: () => stream.received, everyMs: 5 });
}

describe("the ApplicationMaster's side of executor streams", () => {
  test('welcomes an executor with a valid proof, and receives its messages', async () => {
    const { port, events, service } = await serve();
    const stream = attach(port);
    expect(await welcomed(stream)).toMatchObject({ masterAttempt: 2, intervalMs: 500, command: 'true' });
    stream.send({
      heartbeat: {
        generation: 1,
        usage: { memoryBytes: 5, cpuCores: 0.5, gpus: [], stopped: true },
        progress: { step: 3, checkpointStep: 2, metrics: { a: 1 }, notices: [], earlyEnd: null },
        clock: 20.5,
      },
    });
    stream.send({ exited: { generation: 1, code: -1, signal: 'SIGKILL', stderrTail: 'x', permanent: true, clock: 30.5 } });
    await until(() => events.length === 3, { describe: () => events, everyMs: 5 });
    expect(events).toEqual([
      {
        type: 'hello',
        containerId: CONTAINER,
        role: 'worker',
        index: 0,
        generation: 0,
        phase: 'idle',
        host: '127.0.0.1',
        port: 4711,
        exit: null,
        clock: 10.5,
      },
      {
        type: 'heartbeat',
        containerId: CONTAINER,
        generation: 1,
        usage: { memoryBytes: 5, cpuCores: 0.5, gpus: [], stopped: true },
        progress: { step: 3, total: 0, metrics: { a: 1 }, checkpointStep: 2, lostRank: null, notices: [], earlyEnd: null, ending: false },
        clock: 20.5,
      },
      {
        type: 'exited',
        containerId: CONTAINER,
        exit: { generation: 1, code: -1, signal: 'SIGKILL', stderrTail: 'x', permanent: true, clock: 30.5 },
      },
    ]);
    service.start(CONTAINER, asGeneration(4), [
      { role: 'worker', index: 0, host: 'a', port: 1, taskRank: 0 },
      { role: 'evaluator', index: 0, host: 'b', port: 2, taskRank: null },
    ]);
    const start = await until(() => stream.received[1]?.start, { describe: () => stream.received, everyMs: 5 });
    expect(start.members?.map((member) => member.rank ?? null)).toEqual([0, null]);
  });

  test.each<[string, Partial<TonyMessages['Hello']>, status]>([
    ['has no proof', { proof: new Uint8Array(0) }, status.PERMISSION_DENIED],
    [
      "shows another container's proof",
      { proof: containerProof(secrets.jobSecret, 'container_1_0001_01_000003') },
      status.PERMISSION_DENIED,
    ],
    ["shows another job's proof", { proof: containerProof(newSecrets().jobSecret, CONTAINER) }, status.PERMISSION_DENIED],
    ['has seen a newer ApplicationMaster', { masterAttempt: 3 }, status.ABORTED],
  ])('rejects an executor that %s, and reports its own attempt', async (_, hello, code) => {
    const { port, events } = await serve();
    const error = await attach(port, hello).ended;
    expect(error.code).toBe(code);
    expect(error.metadata.get('tony-attempt')).toEqual(['2']);
    expect(events).toEqual([]);
  });

  test('tells executors to retry while the ApplicationMaster restores the saved state of the job', async () => {
    const served = await serve();
    served.assignment = undefined;
    expect((await attach(served.port).ended).code).toBe(status.UNAVAILABLE);
    served.assignment = { role: 'worker', index: 0 };
    await welcomed(attach(served.port));
  });

  test('accepts the stream of a container outside the job, can stop it, and receives its confirmation', async () => {
    const served = await serve();
    served.assignment = null;
    const stream = attach(served.port, { phase: 'RUNNING', generation: 1 });
    await welcomed(stream);
    served.service.stop(CONTAINER, 'enough', true);
    await until(() => stream.received.some(({ stop }) => stop?.atOnce === true), { describe: () => stream.received, everyMs: 5 });
    stream.send({ left: {} });
    await until(() => served.events.length === 2, { describe: () => served.events, everyMs: 5 });
    expect(served.events).toMatchObject([
      { type: 'hello', containerId: CONTAINER, phase: 'running' },
      { type: 'left', containerId: CONTAINER },
    ]);
  });

  test('sends to the newest stream of a container, and ignores the end of an older stream', async () => {
    const { port, events, service } = await serve();
    const older = attach(port);
    await welcomed(older);
    const newer = attach(port);
    await welcomed(newer);
    await older.ended;
    service.prepare(CONTAINER, asGeneration(7));
    await until(() => newer.received.some(({ prepare }) => prepare?.generation === 7), { describe: () => newer.received, everyMs: 5 });
    expect(events.map(({ type }) => type)).toEqual(['hello', 'hello']);
  });

  test("when a hello contains progress and the program's end, reports the progress first", async () => {
    const { port, events } = await serve();
    const exited = { generation: 1, code: 1, signal: '', stderrTail: '', clock: 1 };
    const progress = { step: 1, checkpointStep: 0, metrics: {}, lostRank: 0, notices: [], earlyEnd: null };
    await welcomed(attach(port, { phase: 'ENDED', generation: 1, exited, progress }));
    await until(() => events.length === 3, { describe: () => events, everyMs: 5 });
    expect(events).toMatchObject([
      { type: 'hello', phase: 'running', exit: null },
      { type: 'heartbeat', progress: { lostRank: 0 } },
      { type: 'exited' },
    ]);
  });

  test("rejects connections without the job's key or with an older TLS version", async () => {
    const { port } = await serve();
    expect((await attach(port, {}, null).ended).code).toBe(status.UNAVAILABLE);
    expect((await attach(port, {}, newSecrets()).ended).code).toBe(status.UNAVAILABLE);
    const old = connect({ host: '127.0.0.1', port, maxVersion: 'TLSv1.2', rejectUnauthorized: false, ALPNProtocols: ['h2'] });
    const error = await new Promise<Error>((resolve) => old.once('error', resolve));
    expect(error.message).toMatch(/protocol version|alert/);
  });
});
