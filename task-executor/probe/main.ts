import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import tls from 'node:tls';
import { readContainerInputs } from '../../conf/container-inputs.ts';
import { CONTAINER_LAYOUT, CREDENTIALS } from '../../conf/job.ts';
import type { ProbeFacts, ProbeOrder, ProbePeers, ProbeReached, Unreached } from '../../conf/node-probe.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import { CERTIFICATE_NAME } from '../../protos/executor-protocol.ts';
import { pinnedIdentity } from '../../protos/pinned-identity.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { EXECUTOR_ENVIRONMENT, parseAddress } from '../settings/settings.ts';
import { dial } from './dial.ts';

/**
 * The program that `tony-ts doctor --probe` runs in a container on each node. Sends the facts that probe.sh has collected, and connects to
 * the other nodes.
 */

const STORAGE_MS = 15_000;
const DIALS_AT_ONCE = 16;

const { variable, secret, job } = await readContainerInputs(process.env, process.cwd());
const order = JSON.parse(job.toString('utf8')) as ProbeOrder;
const listener = net.createServer((socket) => socket.on('error', () => {}).destroy());
listener.listen(0);
await once(listener, 'listening');

const facts: ProbeFacts = {
  type: 'facts',
  containerId: variable(EXECUTOR_ENVIRONMENT.containerId),
  facts: await readFile('facts', 'latin1'),
  port: (listener.address() as AddressInfo).port,
  storage: await storageFailure(),
};

const master = connectToMaster();
const send = (message: ProbeFacts | ProbeReached): void => void master.write(`${JSON.stringify(message)}\n`);
master.on('secureConnect', () => send(facts));
// The ApplicationMaster closes the connection once it has all reports.
master.on('error', (error) => process.stderr.write(`${messageOf(error)}\n`)).on('close', () => process.exit(0));
for await (const line of createInterface({ input: master })) {
  const { peers } = JSON.parse(line) as ProbePeers;
  send({ type: 'reached', tried: peers.length, unreached: await unreachedOf(peers) });
}

function connectToMaster(): tls.TLSSocket {
  const certificate = Buffer.from(secret(CREDENTIALS.certificate).reveal());
  return tls.connect({
    ...parseAddress(variable(EXECUTOR_ENVIRONMENT.master)),
    ca: certificate,
    cert: certificate,
    key: Buffer.from(secret(CREDENTIALS.privateKey).reveal()),
    servername: CERTIFICATE_NAME,
    minVersion: 'TLSv1.3',
    checkServerIdentity: pinnedIdentity(certificate),
  });
}

/** Reads job.json from HDFS, so that the NameNode redirects the request to a DataNode. */
async function storageFailure(): Promise<string> {
  const storage = createStorage({ hadoop: HadoopConfiguration.fromProperties(order.cluster.hadoop), user: order.user });
  const reading = storage.read(joinUri(order.staging, CONTAINER_LAYOUT.job)).then(() => '', messageOf);
  const failure = await withTimeout(reading, STORAGE_MS, () => `HDFS did not answer within ${STORAGE_MS / 1000} s`);
  storage.close();
  return failure;
}

async function unreachedOf(peers: ProbePeers['peers']): Promise<Unreached[]> {
  const unreached: Unreached[] = [];
  for (let at = 0; at < peers.length; at += DIALS_AT_ONCE) {
    const batch = peers.slice(at, at + DIALS_AT_ONCE);
    const reasons = await Promise.all(batch.map(({ host, port }) => dial(host, port)));
    unreached.push(...batch.flatMap(({ node }, index) => (reasons[index] ? [{ node, reason: reasons[index] }] : [])));
  }
  return unreached;
}
