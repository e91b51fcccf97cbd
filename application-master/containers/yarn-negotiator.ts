import { CONTAINER_LAYOUT, type FrozenJob, type Role } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status/status.ts';
import { dockerEnvironment } from '../../conf/values/docker.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { daemonUri } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { type Credentials, credentialsForTasks, findToken, MASTER_TOKEN_KIND } from '../../hadoop/rpc/credentials.ts';
import type { AllocatedContainer } from '../../hadoop/rpc/records.ts';
import { ApplicationMasterClient } from '../../hadoop/yarn/application-master-protocol.ts';
import { aclText } from '../../hadoop/yarn/application-submission.ts';
import { containerEnd, describeExit } from '../../hadoop/yarn/container-exit.ts';
import { NodeManagerClient } from '../../hadoop/yarn/container-management-protocol.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { Secret } from '../../platform/secret.ts';
import type { Entry } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { askedResources } from '../job/pending-reasons.ts';
import type { Container } from '../job/state/events.ts';
import type { LaunchSpecification, Negotiator, NegotiatorListener, RegistrationResult } from './negotiator.ts';

/**
 * Heartbeat interval in ms while containers are requested. Heartbeat responses deliver the containers, so a short interval starts tasks
 * sooner.
 */
const BEAT_WHILE_ASKING_MS = 150;
/** Heartbeat interval in ms while no containers are requested. */
const BEAT_MS = 1000;

export interface YarnNegotiatorOptions {
  readonly frozen: FrozenJob;
  /** Returns the newest credentials. */
  readonly credentials: () => Credentials;
  /**
   * Files that YARN localises for each container. This is a promise, so that the ApplicationMaster can register while job.json is still
   * being looked up.
   */
  readonly resources: Promise<readonly LocalResource[]>;
  readonly listener: NegotiatorListener;
  readonly log: Logger;
  readonly host: string;
  /** Returns the fraction of the job that has been completed, from 0 to 1. */
  readonly progress: () => number;
}

/**
 * Creates the clients with which an ApplicationMaster talks to its ResourceManager and to NodeManagers.
 * @throws TonyError CREDENTIALS_INVALID
 */
export function yarnClients(credentials: Credentials, { schedulers, minimumQop }: HadoopConfiguration, log: Logger) {
  const token = findToken(credentials, MASTER_TOKEN_KIND);
  if (token === undefined) {
    throw new TonyError('CREDENTIALS_INVALID', 'The container has no token for the ResourceManager.');
  }
  const scheduler = new ApplicationMasterClient({ schedulers, token, minimumQop, log });
  return { scheduler, nodes: new NodeManagerClient({ tokens: scheduler.nodeTokens, minimumQop, log }) };
}

/** Returns job.json and the files that it lists, with URIs that NodeManagers can read. */
export function containerResources(
  { resources, staging, cluster }: Pick<FrozenJob, 'resources' | 'staging' | 'cluster'>,
  { size, modifiedAt }: Pick<Entry, 'size' | 'modifiedAt'>,
): readonly LocalResource[] {
  const name = CONTAINER_LAYOUT.job;
  const staged = joinUri(staging, name);
  const uri = cluster.kind === 'yarn' ? daemonUri(HadoopConfiguration.fromProperties(cluster.hadoop), staged) : staged;
  return [...resources, { name, uri, type: 'file', visibility: 'application', size, timestamp: modifiedAt }];
}

const FINAL_STATUS = { succeeded: 'SUCCEEDED', failed: 'FAILED', killed: 'KILLED' } as const satisfies Record<JobResult['state'], string>;

/** Requests containers from the ResourceManager, and starts and stops them through NodeManagers. */
export class YarnNegotiator implements Negotiator {
  readonly #options: YarnNegotiatorOptions;
  readonly #scheduler: ApplicationMasterClient;
  readonly #nodes: NodeManagerClient;
  readonly #containers = new Map<string, AllocatedContainer>();
  readonly #excludedNodes = new Map<string, readonly string[]>();
  readonly #hosts: Set<string>;
  /** Highest progress that this attempt has reported. The reported progress never decreases, even though a new generation repeats steps. */
  #highestProgress = 0;
  #wake: (() => void) | null = null;
  #stopping = false;
  #beating: Promise<void> | null = null;

  constructor(options: YarnNegotiatorOptions) {
    this.#options = options;
    const { frozen, credentials } = options;
    if (frozen.cluster.kind !== 'yarn') {
      throw new TonyError('INTERNAL', 'A local job does not negotiate with YARN.');
    }
    this.#hosts = new Set([options.host]);
    const configuration = HadoopConfiguration.fromProperties(frozen.cluster.hadoop);
    ({ scheduler: this.#scheduler, nodes: this.#nodes } = yarnClients(credentials(), configuration, options.log));
  }

  async register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<RegistrationResult> {
    const registration = await this.#scheduler.register(endpoint);
    this.#beating = this.#beat();
    return {
      maximum: registration.maximum,
      resourceTypes: registration.resourceTypes,
      countsAll: registration.countsAll,
      queue: registration.queue,
      survivors: registration.previousContainers.flatMap((container) => this.#converted(container)),
    };
  }

  ask(role: Role, count: number, excludedNodes: readonly string[]): void {
    this.#options.log.debug({ role: role.name, count, excludedNodes }, 'requesting containers');
    this.#excludedNodes.set(role.name, excludedNodes);
    this.#scheduler.setAvoidedHosts(this.#avoidedHosts());
    try {
      this.#scheduler.setAsk({
        priority: this.#priorityOf(role.name),
        allocationRequestId: this.#priorityOf(role.name),
        resources: askedResources(role),
        count,
        nodeLabel: role.nodeLabel,
      });
    } catch (error) {
      this.#options.listener.askRefused(role.name, messageOf(error));
      return;
    }
    this.#beatNow();
  }

  release(containerId: string): void {
    this.#scheduler.release(containerId);
    this.#beatNow();
  }

  launch(containerId: string, specification: LaunchSpecification): void {
    void this.#launch(containerId, specification).catch((error: unknown) => {
      // If only the response was lost, the container may be running. Releasing the container ends it in this case too.
      this.release(containerId);
      this.#options.listener.launchFailed(containerId, messageOf(error));
    });
  }

  async #launch(containerId: string, specification: LaunchSpecification): Promise<void> {
    const container = this.#containers.get(containerId);
    if (container === undefined) {
      throw new TonyError('INTERNAL', `${containerId} was never allocated to this attempt.`);
    }
    const { acls } = this.#options.frozen.job;
    const role = this.#options.frozen.job.roles[container.priority - 1];
    await this.#nodes.start(container, {
      localResources: [...(await this.#options.resources), ...(this.#options.frozen.roleResources[role?.name ?? ''] ?? [])],
      environment: { ...specification.environment, ...dockerEnvironment(role?.docker ?? null) },
      command: `exec ${specification.command} 1><LOG_DIR>/tony.log 2>&1`,
      credentials: credentialsForTasks(
        this.#options.credentials(),
        new Map([...specification.secrets].map(([name, bytes]) => [name, new Secret(bytes)])),
      ),
      acls: { view: aclText(acls.view), modify: aclText(acls.modify) },
    });
  }

  stop(containerId: string): void {
    const container = this.#containers.get(containerId);
    if (container === undefined) {
      return;
    }
    const fallBack = (error: unknown): void => {
      this.#options.log.warn(
        { container: containerId, error: messageOf(error) },
        'the NodeManager did not stop the container; releasing it through the ResourceManager',
      );
      this.release(containerId);
    };
    void this.#nodes.stop(container.node, [containerId]).then((answers) => {
      const error = answers.get(containerId);
      if (error) {
        fallBack(error);
      }
    }, fallBack);
  }

  async finish(result: JobResult, trackingUrl: string): Promise<void> {
    await this.#endBeating();
    await this.#scheduler.finish({ status: FINAL_STATUS[result.state], diagnostics: result.message, trackingUrl });
  }

  async close(): Promise<void> {
    const beaten = this.#endBeating();
    this.#scheduler.close();
    this.#nodes.close();
    await beaten;
  }

  async #endBeating(): Promise<void> {
    this.#stopping = true;
    this.#beatNow();
    await this.#beating;
  }

  async #beat(): Promise<void> {
    while (!this.#stopping) {
      try {
        this.#highestProgress = Math.max(this.#highestProgress, this.#options.progress());
        const answer = await this.#scheduler.heartbeat(this.#highestProgress);
        for (const refused of answer.refusedAsks) {
          const role = this.#roleOf(refused.ask.priority);
          if (role !== undefined) {
            this.#options.listener.askRefused(role, refused.message);
          }
        }
        if (answer.preempting.length > 0) {
          this.#options.listener.preempting(answer.preempting);
        }
        this.#options.listener.cluster(answer.nodes, answer.headroom);
        for (const completed of answer.completed) {
          this.#options.log.debug(
            { container: completed.id, exitStatus: completed.exitStatus },
            'the ResourceManager reports an ended container',
          );
          this.#containers.delete(completed.id);
          const end = containerEnd(completed.exitStatus, completed.diagnostics);
          const diagnostics = describeExit(completed.exitStatus, completed.diagnostics);
          this.#options.listener.ended(completed.id, end, completed.exitStatus, diagnostics);
        }
        const allocated = [...answer.allocated, ...answer.previousContainers].flatMap((container) => this.#converted(container));
        if (allocated.length > 0) {
          const containers = allocated.map(({ id }) => id);
          this.#options.log.debug({ containers, headroom: answer.headroom }, 'the ResourceManager allocated containers');
          this.#options.listener.allocated(allocated);
        }
      } catch (error) {
        if (this.#stopping) {
          return;
        }
        this.#stopping = true;
        this.#options.listener.fenced(messageOf(error));
        return;
      }
      await this.#pause(this.#scheduler.hasOpenAsks ? BEAT_WHILE_ASKING_MS : BEAT_MS);
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#stopping) {
      return;
    }
    const waking = new AbortController();
    this.#wake = () => waking.abort();
    await pause(ms, waking.signal);
    this.#wake = null;
  }

  #beatNow(): void {
    this.#wake?.();
  }

  /** Converts an allocated container. If its priority does not match any role, releases the container and returns an empty list. */
  #converted(container: AllocatedContainer): Container[] {
    const role = this.#roleOf(container.priority);
    this.#hosts.add(hostOf(container.node));
    if (role === undefined) {
      this.#options.log.warn({ container: container.id, priority: container.priority }, 'releasing a container that no role requested');
      this.#scheduler.release(container.id);
      return [];
    }
    this.#containers.set(container.id, container);
    const memoryMb = container.resources['memory-mb'] ?? 0;
    return [{ id: container.id, role, node: container.node, nodeHttp: container.nodeHttp, memoryMb }];
  }

  /**
   * Returns the request priority for a role. Each role has its own priority, so a container's priority shows for which role the container
   * was allocated. YARN serves earlier roles first.
   */
  #priorityOf(role: string): number {
    return this.#options.frozen.job.roles.findIndex((candidate) => candidate.name === role) + 1;
  }

  #roleOf(priority: number): string | undefined {
    return this.#options.frozen.job.roles[priority - 1]?.name;
  }

  /**
   * Returns the hosts that YARN must not use for this application. Returns an empty list if it would otherwise contain all known hosts.
   * This can happen because several NodeManagers may share a host. In that case, the job machine releases the containers that YARN
   * allocates on excluded nodes.
   */
  #avoidedHosts(): ReadonlySet<string> {
    const avoided = new Set([...this.#excludedNodes.values()].flat().map(hostOf));
    return [...this.#hosts].some((host) => !avoided.has(host)) ? avoided : new Set();
  }
}

function hostOf(node: string): string {
  return node.slice(0, node.lastIndexOf(':'));
}
