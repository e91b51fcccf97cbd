import { messageOf, TonyError } from '../conf/errors.ts';
import type { FrozenJob, Resource, Role } from '../conf/job.ts';
import type { Logger } from '../conf/log.ts';
import { Secret } from '../conf/secret.ts';
import type { JobResult } from '../conf/status.ts';
import { type AllocatedContainer, ApplicationMasterClient } from '../hadoop/application-master-protocol.ts';
import { aclText } from '../hadoop/application-submission.ts';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { containerEnd, describeExit } from '../hadoop/container-exit.ts';
import { NodeManagerClient } from '../hadoop/container-management-protocol.ts';
import { type Credentials, credentialsForTasks, findToken, MASTER_TOKEN_KIND } from '../hadoop/credentials.ts';
import type { Container } from './events.ts';
import type { LaunchSpecification, Negotiator, NegotiatorListener, Registration } from './negotiator.ts';
import { askedResources } from './waiting.ts';

/** While containers are wanted the scheduler is asked this often (ms): it hands out what the NodeManagers' heartbeats freed in between. */
const BEAT_WHILE_ASKING_MS = 150;
const BEAT_MS = 1000;

/** Containers from YARN: asks and completions over the scheduler's RPC, launches and stops over each NodeManager's. */
export class YarnNegotiator implements Negotiator {
  readonly #frozen: FrozenJob;
  readonly #credentials: Credentials;
  /** job.json included; the promise lets registration run while it is looked up. */
  readonly #resources: Promise<readonly Resource[]>;
  readonly #listener: NegotiatorListener;
  readonly #log: Logger;
  readonly #scheduler: ApplicationMasterClient;
  readonly #nodes: NodeManagerClient;
  readonly #containers = new Map<string, AllocatedContainer>();
  readonly #excludedNodes = new Map<string, readonly string[]>();
  readonly #hosts: Set<string>;
  #wake: (() => void) | null = null;
  #stopping = false;
  #beating: Promise<void> | null = null;

  constructor(options: {
    frozen: FrozenJob;
    credentials: Credentials;
    resources: Promise<readonly Resource[]>;
    listener: NegotiatorListener;
    log: Logger;
    /** Where the ApplicationMaster runs. */
    host: string;
  }) {
    const { frozen, credentials } = options;
    if (frozen.cluster.kind !== 'yarn') throw new TonyError('INTERNAL', 'A local job does not negotiate with YARN.');
    const token = findToken(credentials, MASTER_TOKEN_KIND);
    if (token === undefined) throw new TonyError('CREDENTIALS_INVALID', 'The container has no token for the ResourceManager.');
    this.#frozen = frozen;
    this.#credentials = credentials;
    this.#resources = options.resources;
    this.#listener = options.listener;
    this.#log = options.log;
    this.#hosts = new Set([options.host]);
    const configuration = HadoopConfiguration.fromProperties(frozen.cluster.hadoop);
    this.#scheduler = new ApplicationMasterClient({ schedulers: configuration.schedulers, token, log: options.log });
    this.#nodes = new NodeManagerClient({ tokens: this.#scheduler.nodeTokens, log: options.log });
  }

  async register(endpoint: { host: string; rpcPort: number; trackingUrl: string }): Promise<Registration> {
    const registration = await this.#scheduler.register(endpoint);
    this.#beating = this.#beat();
    return {
      maximum: registration.maximum,
      resourceTypes: registration.resourceTypes,
      queue: registration.queue,
      survivors: registration.previousContainers.flatMap((container) => this.#known(container)),
    };
  }

  ask(role: Role, count: number, excludedNodes: readonly string[]): void {
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
      this.#listener.askRefused(role.name, messageOf(error));
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
      // The reply may have been lost after the NodeManager started it: a release ends it in any case.
      this.release(containerId);
      this.#listener.launchFailed(containerId, messageOf(error));
    });
  }

  async #launch(containerId: string, specification: LaunchSpecification): Promise<void> {
    const container = this.#containers.get(containerId);
    if (container === undefined) throw new TonyError('INTERNAL', `${containerId} was never allocated to this attempt.`);
    const { acls } = this.#frozen.job;
    await this.#nodes.start(container, {
      localResources: [...(await this.#resources), ...(this.#frozen.roleResources[this.#roleOf(container.priority) ?? ''] ?? [])],
      environment: specification.environment,
      command: `exec ${specification.command} 1><LOG_DIR>/tony.log 2>&1`,
      credentials: credentialsForTasks(
        this.#credentials,
        new Map([...specification.secrets].map(([name, bytes]) => [name, new Secret(bytes)])),
      ),
      acls: { view: aclText(acls.view), modify: aclText(acls.modify) },
    });
  }

  stop(containerId: string): void {
    const container = this.#containers.get(containerId);
    if (container === undefined) return;
    const fallBack = (error: unknown): void => {
      this.#log.warn({ container: containerId, error: messageOf(error) }, 'the NodeManager does not stop it; asking the ResourceManager');
      this.release(containerId);
    };
    void this.#nodes.stop(container.node, [containerId]).then((answers) => {
      const error = answers.get(containerId);
      if (error) fallBack(error);
    }, fallBack);
  }

  async finish(result: JobResult, trackingUrl: string): Promise<void> {
    await this.#endBeating();
    await this.#scheduler.finish({ status: result.state, diagnostics: result.diagnostics, trackingUrl });
  }

  async close(): Promise<void> {
    this.#stopping = true;
    this.#beatNow();
    this.#scheduler.close();
    this.#nodes.close();
    await this.#beating;
  }

  async #endBeating(): Promise<void> {
    this.#stopping = true;
    this.#beatNow();
    await this.#beating;
  }

  /** One heartbeat after the other, for the attempt's whole life. */
  async #beat(): Promise<void> {
    while (!this.#stopping) {
      try {
        const answer = await this.#scheduler.heartbeat(0);
        for (const refused of answer.refusedAsks) {
          const role = this.#roleOf(refused.ask.priority);
          if (role !== undefined) this.#listener.askRefused(role, refused.message);
        }
        this.#listener.cluster(answer.nodes, answer.headroom);
        for (const completed of answer.completed) {
          this.#containers.delete(completed.id);
          const end = containerEnd(completed.exitStatus, completed.diagnostics);
          const diagnostics = describeExit(completed.exitStatus, completed.diagnostics);
          this.#listener.ended(completed.id, end, completed.exitStatus, diagnostics);
        }
        const allocated = [...answer.allocated, ...answer.previousContainers].flatMap((container) => this.#known(container));
        if (allocated.length > 0) this.#listener.allocated(allocated);
      } catch (error) {
        if (this.#stopping) return;
        this.#stopping = true;
        this.#listener.fenced(messageOf(error));
        return;
      }
      await this.#pause(this.#scheduler.hasOpenAsks ? BEAT_WHILE_ASKING_MS : BEAT_MS);
    }
  }

  #pause(ms: number): Promise<void> {
    if (this.#stopping) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const self = this;
      function done(): void {
        clearTimeout(timer);
        self.#wake = null;
        resolve();
      }
      this.#wake = done;
    });
  }

  #beatNow(): void {
    this.#wake?.();
  }

  /** Empty for a container whose priority is none of the job's roles'. */
  #known(container: AllocatedContainer): Container[] {
    const role = this.#roleOf(container.priority);
    this.#hosts.add(hostOf(container.node));
    if (role === undefined) {
      this.#log.warn({ container: container.id, priority: container.priority }, 'a container that no role asked for goes back');
      this.#scheduler.release(container.id);
      return [];
    }
    this.#containers.set(container.id, container);
    const memoryMb = container.resources['memory-mb'] ?? 0;
    return [{ id: container.id, role, node: container.node, nodeHttp: container.nodeHttp, memoryMb }];
  }

  /** One role, one priority: that is how a container is known to answer its ask. Earlier roles are served first. */
  #priorityOf(role: string): number {
    return this.#frozen.job.roles.findIndex((candidate) => candidate.name === role) + 1;
  }

  #roleOf(priority: number): string | undefined {
    return this.#frozen.job.roles[priority - 1]?.name;
  }

  /**
   * YARN avoids whole hosts, and for the whole application. A host is named only when the job has seen another one: where several
   * NodeManagers share a host, avoiding it would leave nothing. What still arrives on an excluded node, the job machine gives back.
   */
  #avoidedHosts(): ReadonlySet<string> {
    const avoided = new Set([...this.#excludedNodes.values()].flat().map(hostOf));
    return [...this.#hosts].some((host) => !avoided.has(host)) ? avoided : new Set();
  }
}

function hostOf(node: string): string {
  return node.slice(0, node.lastIndexOf(':'));
}
