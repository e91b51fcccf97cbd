import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll } from 'vitest';
import { withTimeout } from '../../platform/async/deadline.ts';
import { Secret } from '../../platform/secret.ts';
import type { S3Connection } from '../../storage/s3/s3-connection.ts';
import { COPY_JARS, runMaven } from '../cluster/jars.mjs';
import { keptFolder } from '../cluster/kept-folder.mjs';
import { CACHE } from '../cluster/layout.mjs';

const POM = path.join(import.meta.dirname, 'pom.xml');
const START_MS = 60_000;

/** An S3-compatible server (S3Proxy over a local folder). It checks signatures and supports ranges, multipart uploads and conditional writes. */
export interface ObjectStore {
  readonly connection: S3Connection;
  readonly bucket: string;
  /** Variables with which the command and standalone programs find the store. */
  readonly environment: Readonly<Record<string, string>>;
  /** The folder in which the server stores the bucket's objects. */
  readonly folder: string;
  stop(): Promise<void>;
}

/** Starts a server with an empty bucket for the tests of a file. */
export function useObjectStore(): () => ObjectStore {
  let store: ObjectStore | null = null;
  beforeAll(async () => {
    store = await startObjectStore();
  });
  afterAll(async () => {
    await store?.stop();
  });
  return () => {
    if (store === null) {
      throw new Error('the object store has not started');
    }
    return store;
  };
}

export async function startObjectStore(): Promise<ObjectStore> {
  const lib = await jars();
  const home = await mkdtemp(path.join(tmpdir(), 'object-store-'));
  const bucket = 'training-data';
  const folder = path.join(home, 'data', bucket);
  const [accessKeyId, secretAccessKey] = ['tony-test', randomBytes(20).toString('hex')];
  await mkdir(folder, { recursive: true });
  const properties = {
    's3proxy.endpoint': 'http://127.0.0.1:0',
    's3proxy.authorization': 'aws-v2-or-v4',
    's3proxy.identity': accessKeyId,
    's3proxy.credential': secretAccessKey,
    'jclouds.provider': 'filesystem-nio2',
    'jclouds.filesystem.basedir': path.dirname(folder),
  };
  const settings = path.join(home, 's3proxy.properties');
  await writeFile(
    settings,
    Object.entries(properties).map(([key, value]) => `${key}=${value}\n`),
    { mode: 0o600 },
  );
  // The kernel ends the server when this process ends for any reason.
  const words = ['--pdeathsig', 'KILL', 'java', '-Xmx256m', '-XX:+UseSerialGC', '-DLOG_LEVEL=INFO', '-cp', `${lib}/*`];
  const server = spawn('setpriv', [...words, 'org.gaul.s3proxy.Main', '--properties', settings], { stdio: ['ignore', 'pipe', 'inherit'] });
  const stop = async (): Promise<void> => {
    if (server.exitCode === null && server.signalCode === null) {
      server.kill('SIGKILL');
      await once(server, 'exit');
    }
    await rm(home, { recursive: true, force: true });
  };
  try {
    const endpoint = `http://127.0.0.1:${await portOf(server)}`;
    const connection = {
      endpoint,
      region: 'us-east-1',
      pathStyle: true,
      accessKeyId,
      secretAccessKey: secretOf(secretAccessKey),
      sessionToken: null,
    };
    const environment = {
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    };
    return { connection, bucket, environment, folder, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function secretOf(text: string): Secret {
  return new Secret(Buffer.from(text));
}

/** Reads the port from the server's log, and then discards the rest of the log. */
async function portOf({ stdout, ...server }: ChildProcess): Promise<number> {
  const log: string[] = [];
  const lines = createInterface({ input: stdout as NonNullable<typeof stdout> });
  const found = new Promise<number>((resolve, reject) => {
    lines.on('line', (line) => {
      const port = /ServerConnector@.*\{127\.0\.0\.1:([1-9]\d*)\}/.exec(line)?.[1];
      if (port !== undefined) {
        log.length = 0;
        resolve(Number(port));
      } else if (log.length < 100) {
        log.push(line);
      }
    });
    lines.once('close', () => reject(new Error(`the object store ended (${server.exitCode}):\n${log.join('\n')}`)));
  });
  return await withTimeout(found, START_MS, () => {
    throw new Error(`the object store did not start within ${START_MS / 1000} s:\n${log.join('\n')}`);
  });
}

/** Returns the folder with the server's jars. Maven downloads them once for each version of the pom. */
async function jars(): Promise<string> {
  const version = createHash('sha256')
    .update(await readFile(POM))
    .digest('hex')
    .slice(0, 12);
  return keptFolder(path.join(CACHE, `s3proxy-${version}`), (folder) =>
    runMaven(['-B', '-q', '-f', POM, ...COPY_JARS, `-DoutputDirectory=${folder}`]),
  );
}
