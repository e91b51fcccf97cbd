import { lookup } from 'node:dns/promises';
import type { ContainerInputs } from '../../conf/container-inputs.ts';
import { CONTAINER_LAYOUT, CREDENTIALS } from '../../conf/job.ts';
import { type NodeToProbe, PROBE_LAYOUT, type ProbedNode, type ProbeOrder, type ProbeResult } from '../../conf/node-probe.ts';
import { parseProbeOrder } from '../../conf/resolve/frozen-job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { credentialsForTasks } from '../../hadoop/rpc/credentials.ts';
import type { AllocatedContainer } from '../../hadoop/rpc/records.ts';
import type { ApplicationMasterClient } from '../../hadoop/yarn/application-master-protocol.ts';
import type { NodeManagerClient } from '../../hadoop/yarn/container-management-protocol.ts';
import { launchCommand } from '../../hadoop/yarn/launch-script.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { formatAddress } from '../../platform/address.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { Secret } from '../../platform/secret.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { containerResources, yarnClients } from '../containers/yarn-negotiator.ts';
import { containerProof } from '../rpc/executor-service.ts';
import { ProbeLedger } from './probe-ledger.ts';
import { ProbeService } from './probe-service.ts';

const BEAT_MS = 200;
/** Memory size of a probe container. Node.js maps about 1 GiB of virtual memory, and YARN may enforce a limit on virtual memory. */
const CONTAINER_MB = 1024;
/**
 * Timeout in ms for the containers to connect to each other. Each container connects to up to MOST_PEERS nodes, 16 at a time. A connection
 * takes at most 5 s.
 */
const REACH_MS = 30_000;

/**
 * Runs the probe that `tony-ts doctor --probe` has submitted, and writes its result to the staging folder.
 * @throws TonyError JOB_INVALID, NOT_FOUND, CREDENTIALS_INVALID, and the errors of YARN and HDFS
 */
export async function probeNodes(inputs: ContainerInputs, log: Logger): Promise<void> {
  const order = parseProbeOrder(inputs.job.toString('utf8'));
  const host = inputs.variable('NM_HOST');
  const hadoop = HadoopConfiguration.fromProperties(order.cluster.hadoop);
  const storage = createStorage({ hadoop, user: order.user });
  const staged = joinUri(order.staging, CONTAINER_LAYOUT.job);
  const job = await storage.stat(staged);
  if (job === null) {
    throw new TonyError('NOT_FOUND', `${staged} was removed.`);
  }
  const run = new ProbeRun({ order, inputs, hadoop, resources: containerResources(order, job), host, log });
  const result: ProbeResult = { version: 1, master: host, nodes: await run.probe() };
  await storage.write(joinUri(order.staging, PROBE_LAYOUT.result), Buffer.from(JSON.stringify(result)), {
    permission: 0o600,
    makeParents: false,
  });
  await run.finish();
  storage.close();
}

interface ProbeRunOptions {
  readonly order: ProbeOrder;
  readonly inputs: ContainerInputs;
  readonly hadoop: HadoopConfiguration;
  /** Files for the containers, including job.json. */
  readonly resources: readonly LocalResource[];
  readonly host: string;
  readonly log: Logger;
}

/** Starts one container on each node, and collects the containers' reports. */
class ProbeRun {
  readonly #options: ProbeRunOptions;
  readonly #ledger: ProbeLedger;
  readonly #scheduler: ApplicationMasterClient;
  readonly #nodes: NodeManagerClient;
  readonly #service: ProbeService;
  /** Hosts to probe. The request for a host has the allocation request ID `index + 1`. */
  readonly #hosts: readonly NodeToProbe[];
  #port = 0;

  constructor(options: ProbeRunOptions) {
    const { order, inputs, hadoop, log } = options;
    this.#options = options;
    this.#ledger = new ProbeLedger(order.nodes);
    ({ scheduler: this.#scheduler, nodes: this.#nodes } = yarnClients(inputs.credentials, hadoop, log));
    this.#hosts = [...new Map(order.nodes.map((node) => [node.host, node])).values()];
    this.#service = new ProbeService(this.#ledger, {
      certificate: inputs.secret(CREDENTIALS.certificate),
      privateKey: inputs.secret(CREDENTIALS.privateKey),
      jobSecret: inputs.secret(CREDENTIALS.jobSecret),
      log,
    });
  }

  async probe(): Promise<ProbedNode[]> {
    const { order, host } = this.#options;
    this.#port = await this.#service.listen((await lookup(host)).address);
    await this.#scheduler.register({ host, rpcPort: this.#port, trackingUrl: '' });
    for (const at of this.#hosts.keys()) {
      this.#ask(at);
    }
    await this.#beatUntil(() => this.#ledger.hasAllFacts, order.timeoutMs);
    this.#service.connectNodes();
    await this.#beatUntil(() => this.#ledger.hasAllReached, REACH_MS);
    return this.#ledger.nodes(order.timeoutMs);
  }

  async finish(): Promise<void> {
    this.#service.end();
    await this.#scheduler.finish({ status: 'SUCCEEDED', diagnostics: '', trackingUrl: '' });
    this.#service.close();
    this.#scheduler.close();
    this.#nodes.close();
  }

  #ask(at: number): void {
    const target = this.#hosts[at];
    if (target === undefined) {
      return;
    }
    const { host, rack, label } = target;
    this.#scheduler.setAsk({
      priority: 1,
      allocationRequestId: at + 1,
      resources: { 'memory-mb': CONTAINER_MB, vcores: 1 },
      count: this.#ledger.missingOn(host),
      nodeLabel: label,
      place: { host, rack },
    });
  }

  async #beatUntil(done: () => boolean, timeoutMs: number): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (!done() && performance.now() < end) {
      const { allocated, completed, refusedAsks } = await this.#scheduler.heartbeat(0);
      for (const { ask, message } of refusedAsks) {
        this.#ledger.refused(ask.place?.host ?? '', message);
      }
      for (const container of allocated) {
        this.#start(container);
      }
      for (const { id, exitStatus, diagnostics } of completed) {
        this.#ledger.ended(id, exitStatus, diagnostics);
      }
      await pause(BEAT_MS);
    }
  }

  #start(container: AllocatedContainer): void {
    const { id, node, allocationRequestId } = container;
    if (!this.#ledger.allocated(id, node)) {
      // Several NodeManagers share the host, and this one already has a container. Repeat the request until another NodeManager on the host
      // allocates one.
      this.#scheduler.release(id);
      this.#ask(allocationRequestId - 1);
      return;
    }
    const { inputs, resources, host, log } = this.#options;
    const secrets = new Map([
      ...[CREDENTIALS.certificate, CREDENTIALS.privateKey].map((name) => [name, inputs.secret(name)] as const),
      [CREDENTIALS.containerProof, new Secret(containerProof(inputs.secret(CREDENTIALS.jobSecret), id))],
    ]);
    const context = {
      localResources: resources,
      environment: { TONY_MASTER: formatAddress({ host, port: this.#port }) },
      command: launchCommand(['/bin/bash', `${CONTAINER_LAYOUT.bundles}/${PROBE_LAYOUT.script}`], { stdout: 'tony.log', stderr: 'stderr' }),
      credentials: credentialsForTasks(inputs.credentials, secrets),
    };
    void this.#nodes.start(container, context).catch((error: unknown) => {
      log.warn({ container: id, error: messageOf(error) }, 'could not start a container');
      this.#scheduler.release(id);
      this.#ledger.launchFailed(id, messageOf(error));
    });
  }
}
