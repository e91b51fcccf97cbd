import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { Metadata } from '@grpc/grpc-js';
import { readContainerInputs } from '../../conf/container-inputs.ts';
import { CONTAINER_LAYOUT, CREDENTIALS } from '../../conf/job.ts';
import {
  PROBE_FACTS,
  PROBE_REACHED,
  type ProbeFacts,
  type ProbeOrder,
  type ProbePeers,
  type ProbeReached,
  probeAnswer,
  type Unreached,
} from '../../conf/node-probe.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';
import { clientConstructor } from '../../protos/services.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { EXECUTOR_ENVIRONMENT, parseCheckedJob } from '../program/settings.ts';

const STORAGE_MS = 15_000;
const DIAL_MS = 5_000;
const DIALS_AT_ONCE = 16;

const MasterClient = clientConstructor('ApplicationMaster');

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Takes part in a probe, in a container on one of the nodes. Reports the facts that probe.sh has collected, and connects to the other nodes.
 * @returns the exit code
 */
export async function probeNode(environment: Environment, folder: string): Promise<number> {
  try {
    await takePart(environment, folder);
    return 0;
  } catch (error) {
    // YARN copies the last lines of stderr into its diagnostics.
    process.stderr.write(`${messageOf(error)}\n`);
    return 1;
  }
}

async function takePart(environment: Environment, folder: string): Promise<void> {
  const { variable, secret, job } = await readContainerInputs(environment, folder);
  const listener = net.createServer((socket) => socket.on('error', () => {}).destroy());
  listener.listen(0);
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;

  const certificate = Buffer.from(secret(CREDENTIALS.certificate).reveal());
  const master = variable(EXECUTOR_ENVIRONMENT.master);
  const credentials = pinnedCredentials(certificate, Buffer.from(secret(CREDENTIALS.privateKey).reveal()));
  const client = new MasterClient(master, credentials, PINNED_CHANNEL_OPTIONS);
  const container = { containerId: variable(EXECUTOR_ENVIRONMENT.containerId), proof: secret(CREDENTIALS.containerProof).reveal() };
  const report = (service: string, content: ProbeFacts | ProbeReached): Promise<string> =>
    new Promise((resolve, reject) => {
      const request = { ...container, generation: 0, service, body: Buffer.from(JSON.stringify(content)) };
      client.Serve(request, new Metadata(), {}, (error, answer) =>
        error === null
          ? resolve(Buffer.from(answer?.head ?? []).toString('utf8'))
          : reject(new Error(`The ApplicationMaster at ${master} did not answer: ${error.details}`)),
      );
    });

  const facts = await readFile(path.join(folder, 'facts'), 'latin1');
  const storage = await storageFailure(parseCheckedJob<ProbeOrder>(job.toString('utf8')));
  const { answer: peers } = probeAnswer.parse(JSON.parse(await report(PROBE_FACTS, { facts, port, storage })));
  await report(PROBE_REACHED, { tried: peers.length, unreached: await unreachedOf(peers) });
}

/** Reads job.json from HDFS, so that the NameNode redirects the request to a DataNode. */
async function storageFailure({ cluster, user, staging }: ProbeOrder): Promise<string> {
  const storage = createStorage({ hadoop: HadoopConfiguration.fromProperties(cluster.hadoop), user });
  const reading = storage.read(joinUri(staging, CONTAINER_LAYOUT.job)).then(() => '', messageOf);
  const failure = await withTimeout(reading, STORAGE_MS, () => `HDFS did not answer within ${STORAGE_MS / 1000} s`);
  storage.close();
  return failure;
}

async function unreachedOf(peers: ProbePeers): Promise<Unreached[]> {
  const unreached: Unreached[] = [];
  for (let at = 0; at < peers.length; at += DIALS_AT_ONCE) {
    const batch = peers.slice(at, at + DIALS_AT_ONCE);
    const reasons = await Promise.all(batch.map(({ host, port }) => dial(host, port)));
    unreached.push(...batch.flatMap(({ node }, index) => (reasons[index] ? [{ node, reason: reasons[index] }] : [])));
  }
  return unreached;
}

/** Returns the reason why the address does not accept a connection, or an empty string if it does. */
export function dial(host: string, port: number, timeoutMs = DIAL_MS): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port });
    const end = (reason: string): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reason);
    };
    const timer = setTimeout(() => end(`${host}:${port} did not answer within ${timeoutMs / 1000} s`), timeoutMs);
    socket.on('connect', () => end('')).on('error', (error) => end(messageOf(error)));
  });
}
