import { lookup } from 'node:dns/promises';
import { type ContainerInputs, readContainerInputs } from '../../conf/container-inputs.ts';
import { CONTAINER_LAYOUT, CREDENTIALS } from '../../conf/job.ts';
import { PROBE_LAYOUT, type ProbeOrder, type ProbeResult } from '../../conf/node-probe.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { daemonUri } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { createLogger } from '../../platform/log.ts';
import { createStorage } from '../../storage/create-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { isSubmitted } from '../submitted-job.ts';
import { ProbeRun } from './probe-run.ts';

/** The ApplicationMaster that `tony-ts doctor --probe` starts. */

const log = createLogger({ container: process.env.CONTAINER_ID ?? '' });

function fail(error: unknown): never {
  log.fatal({ error: error instanceof TonyError ? undefined : (error as Error).stack }, messageOf(error));
  // YARN displays the last lines of stderr if an ApplicationMaster fails.
  process.stderr.write(`${messageOf(error)}\n`);
  process.exit(1);
}

process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

try {
  const inputs = await readContainerInputs(process.env, process.cwd());
  const order = orderOf(inputs);
  const host = inputs.variable('NM_HOST');
  const hadoop = HadoopConfiguration.fromProperties(order.cluster.hadoop);
  const storage = createStorage({ hadoop, user: order.user });
  const resources = [...order.resources, await stagedOrder(order, hadoop, storage)];
  const { address } = await lookup(host);
  const run = new ProbeRun({ order, inputs, hadoop, resources, host, address, log });
  const result: ProbeResult = { version: 1, master: host, nodes: await run.probe() };
  await storage.write(joinUri(order.staging, PROBE_LAYOUT.result), Buffer.from(JSON.stringify(result)), {
    permission: 0o600,
    makeParents: false,
  });
  await run.finish();
  storage.close();
  process.exit(0);
} catch (error) {
  fail(error);
}

/** Rejects a job.json that was modified after it was submitted, as a job's ApplicationMaster does. */
function orderOf({ job, secret }: ContainerInputs): ProbeOrder {
  if (!isSubmitted(job, secret(CREDENTIALS.jobDigest))) {
    throw new TonyError('JOB_INVALID', 'job.json is not the submitted file.', { hint: 'Run tony-ts doctor --probe again.' });
  }
  return JSON.parse(job.toString('utf8')) as ProbeOrder;
}

async function stagedOrder({ staging }: ProbeOrder, hadoop: HadoopConfiguration, storage: Storage): Promise<LocalResource> {
  const name = CONTAINER_LAYOUT.job;
  const staged = joinUri(staging, name);
  const found = await storage.stat(staged);
  if (found === null) {
    throw new TonyError('NOT_FOUND', `${staged} was removed.`);
  }
  const { size, modifiedAt } = found;
  return { name, uri: daemonUri(hadoop, staged), type: 'file', visibility: 'application', size, timestamp: modifiedAt };
}
