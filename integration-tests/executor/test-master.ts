/** A scripted ApplicationMaster behind a real gRPC server, with real executors. Each executor has its own container directory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { createJobSecrets } from '../../client/job/job-secrets.ts';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { frozen, workers } from '../../conf/job.fixture.ts';
import { CONTAINER_LAYOUT, CREDENTIALS, type FrozenJob } from '../../conf/job.ts';
import { encodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { readStat } from '../../platform/process-stat.ts';
import { Secret } from '../../platform/secret.ts';
import { addService, onMessage, type ServerStream } from '../../protos/services.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { until } from '../until.ts';

const BUNDLES = path.resolve(import.meta.dirname, '../../dist/container');

type Stream = ServerStream<'ExecutorMessage', 'MasterMessage'>;

class PinnedCredentials extends ServerCredentials {
  constructor(certificate: Uint8Array, key: Uint8Array) {
    const pem = Buffer.from(certificate);
    super({ requestCert: true, rejectUnauthorized: true }, { ca: pem, cert: pem, key: Buffer.from(key), minVersion: 'TLSv1.3' });
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

export interface JobSecrets {
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly jobSecret: Secret;
}

export function newSecrets(): JobSecrets {
  const secrets = createJobSecrets(Date.now(), '{}');
  const of = (name: string): Secret => secrets.get(name) ?? new Secret(Buffer.alloc(0));
  return { certificate: of(CREDENTIALS.certificate), privateKey: of(CREDENTIALS.privateKey), jobSecret: of(CREDENTIALS.jobSecret) };
}

export class TestMaster {
  readonly attempt: number;
  readonly hellos: TonyMessages['Hello'][] = [];
  readonly received: TonyMessages['ExecutorMessage'][] = [];
  /** Requests of programs. All of them get the answer `stored`. */
  readonly requests: TonyMessages['ServiceRequest'][] = [];
  port = 0;
  welcome: Omit<TonyMessages['Welcome'], 'masterAttempt'> = { intervalMs: 100, leaseMs: 60_000, command: 'true', env: {} };
  refuse: { code: status; details: string } | null = null;
  readonly #server = new Server();
  #stream: Stream | null = null;

  constructor(attempt = 1) {
    this.attempt = attempt;
    addService(this.#server, 'ApplicationMaster', {
      Attach: (stream) => this.#attach(stream),
      Serve: ({ request }, answer) => {
        this.requests.push(request);
        answer(null, { head: Buffer.from('{"answer":"stored"}'), body: Buffer.alloc(0) });
      },
      Join: (stream) => void stream.emit('error', { code: status.UNIMPLEMENTED, details: 'no sessions' }),
    });
  }

  async listen({ certificate, privateKey }: JobSecrets): Promise<this> {
    this.port = await new Promise<number>((resolve, reject) => {
      const credentials = new PinnedCredentials(certificate.reveal(), privateKey.reveal());
      this.#server.bindAsync('127.0.0.1:0', credentials, (error, port) => (error ? reject(error) : resolve(port)));
    });
    return this;
  }

  #attach(stream: Stream): void {
    stream.on('error', () => {});
    onMessage(stream, (message) => {
      if (!message.hello) {
        this.received.push(message);
        return;
      }
      this.hellos.push(message.hello);
      if (this.refuse !== null) {
        const metadata = new Metadata();
        metadata.set('tony-attempt', String(this.attempt));
        stream.emit('error', { ...this.refuse, metadata });
        return;
      }
      this.#stream = stream;
      stream.write({ welcome: { ...this.welcome, masterAttempt: this.attempt } });
    });
  }

  send(message: TonyMessages['MasterMessage']): void {
    this.#stream?.write(message);
  }

  start(generation: number, members: TonyMessages['Start']['members'] = []): void {
    this.send({ start: { generation, members } });
  }

  hello(count = 1): Promise<TonyMessages['Hello']> {
    return until(() => this.hellos.length >= count && this.hellos[count - 1], { describe: `hello ${count}`, everyMs: 10 });
  }

  message<Key extends keyof TonyMessages['ExecutorMessage']>(
    key: Key,
    fits: (value: NonNullable<TonyMessages['ExecutorMessage'][Key]>) => boolean = () => true,
  ): Promise<NonNullable<TonyMessages['ExecutorMessage'][Key]>> {
    return until(
      () => this.received.map((message) => message[key]).find((value): value is NonNullable<typeof value> => value != null && fits(value)),
      { describe: () => ({ awaited: key, received: this.received.slice(-10) }), everyMs: 10 },
    );
  }

  close(): void {
    this.#server.forceShutdown();
  }
}

export interface TestExecutor {
  readonly process: ChildProcess;
  readonly folder: string;
  readonly logs: string;
  readonly staging: string;
  readonly exit: Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

const CONTAINER_ID = 'container_1795225023264_0007_01_000002';

export interface ContainerOptions {
  readonly master: { readonly port: number };
  readonly secrets: JobSecrets;
  /** Contents of the files in the user's source folder, by file name. */
  readonly source?: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly framework?: FrameworkName;
}

/** Starts an executor as a NodeManager does. */
export function startExecutor({ master, secrets, source, environment = {}, framework = 'none' }: ContainerOptions): TestExecutor {
  const root = mkdtempSync(path.join(tmpdir(), 'tony-executor-'));
  const [folder, logs, staging] = ['work', 'logs', 'staging'].map((name) => path.join(root, name)) as [string, string, string];
  for (const each of [folder, logs, staging]) {
    mkdirSync(each);
  }
  symlinkSync(BUNDLES, path.join(folder, CONTAINER_LAYOUT.bundles));
  writeFileSync(path.join(folder, CONTAINER_LAYOUT.job), JSON.stringify(frozenJob(root, staging, framework)));
  if (source !== undefined) {
    mkdirSync(path.join(folder, CONTAINER_LAYOUT.source));
    for (const [name, text] of Object.entries(source)) {
      writeFileSync(path.join(folder, CONTAINER_LAYOUT.source, name), text);
    }
  }
  const credentials = path.join(folder, 'container_tokens');
  const proof = createHmac('sha256', secrets.jobSecret.reveal()).update(`container|${CONTAINER_ID}`).digest();
  const entries = new Map([
    [CREDENTIALS.certificate, secrets.certificate],
    [CREDENTIALS.privateKey, secrets.privateKey],
    [CREDENTIALS.containerProof, new Secret(proof)],
    [CREDENTIALS.ringKey, new Secret(randomBytes(32))],
  ]);
  writeFileSync(credentials, encodeCredentials({ tokens: [], secrets: entries }), { mode: 0o600 });
  const child = spawn(process.execPath, [path.join(CONTAINER_LAYOUT.bundles, 'task-executor.mjs')], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      CONTAINER_ID,
      HADOOP_TOKEN_FILE_LOCATION: credentials,
      LOG_DIRS: logs,
      NM_HOST: '127.0.0.1',
      TONY_MASTER: `127.0.0.1:${master.port}`,
      TONY_ROLE: 'worker',
      TONY_INDEX: '1',
      ...environment,
    },
  });
  return { process: child, folder, logs, staging, exit: once(child, 'exit') as TestExecutor['exit'] };
}

function frozenJob(root: string, staging: string, framework: FrameworkName): FrozenJob {
  const uri = (name: string): string => pathToFileURL(path.join(root, name)).href;
  return {
    ...frozen({ roles: [workers({ command: 'true' })], framework, heartbeat: { intervalMs: 100, missed: 10 } }),
    jobId: 'application_1795225023264_0007',
    user: 'alice',
    submittedAt: Date.now(),
    staging: pathToFileURL(staging).href,
    history: uri('history'),
    checkpointDir: uri('checkpoints'),
    summaryDir: uri('summaries'),
    outputDir: uri('output'),
    data: { digits: 'file:///digits' },
    cluster: { kind: 'local', directory: root },
  };
}

export function isAlive(pid: number): boolean {
  const stat = readStat(pid);
  return stat !== null && stat.state !== 'Z' && stat.state !== 'X';
}
