import {
  type NodeToProbe,
  type ProbedNode,
  type ProbeFacts,
  type ProbePeers,
  type ProbeReached,
  parseFacts,
} from '../../conf/node-probe.ts';
import { describeExit } from '../../hadoop/yarn/container-exit.ts';

/** Maximum number of nodes to which one node connects, so that a large cluster does not cause too many connections. */
const MOST_PEERS = 64;

interface Entry {
  readonly target: NodeToProbe;
  containerId: string | null;
  facts: Readonly<Record<string, readonly string[]>> | null;
  port: number | null;
  storage: string | null;
  reached: ProbeReached | null;
  failure: string;
  ended: boolean;
}

/** Collects the probe results for each node. */
export class ProbeLedger {
  readonly #entries: readonly Entry[];

  constructor(nodes: readonly NodeToProbe[]) {
    this.#entries = nodes.map((target) => ({
      target,
      containerId: null,
      facts: null,
      port: null,
      storage: null,
      reached: null,
      failure: '',
      ended: false,
    }));
  }

  /** Assigns an allocated container to its node. Returns false if the node already has a container or is not part of the probe. */
  allocated(containerId: string, node: string): boolean {
    const entry = this.#entries.find(({ target }) => target.node === node);
    if (entry === undefined || entry.containerId !== null || entry.failure !== '') {
      return false;
    }
    entry.containerId = containerId;
    return true;
  }

  /** Returns true if the container has been assigned to a node. */
  has(containerId: string): boolean {
    return this.#of(containerId) !== undefined;
  }

  /** Returns the number of containers that YARN must still allocate on a host. Several NodeManagers can share a host. */
  missingOn(host: string): number {
    return this.#entries.filter(({ target, containerId, failure }) => target.host === host && containerId === null && failure === '')
      .length;
  }

  refused(host: string, message: string): void {
    for (const entry of this.#entries.filter(({ target, containerId }) => target.host === host && containerId === null)) {
      entry.failure = message;
    }
  }

  facts(containerId: string, { facts, port, storage }: ProbeFacts): void {
    const entry = this.#of(containerId);
    if (entry !== undefined && entry.facts === null) {
      Object.assign(entry, { facts: parseFacts(facts), port, storage });
    }
  }

  reached(containerId: string, reached: ProbeReached): void {
    const entry = this.#of(containerId);
    if (entry !== undefined) {
      entry.reached ??= reached;
    }
  }

  launchFailed(containerId: string, message: string): void {
    const entry = this.#of(containerId);
    if (entry !== undefined) {
      Object.assign(entry, { failure: message, ended: true });
    }
  }

  /**
   * Records that a container has ended. If the shipped Node.js cannot start, the node's facts are in stderr. The NodeManager copies the end
   * of stderr into the diagnostics.
   */
  ended(containerId: string, exitStatus: number, diagnostics: string): void {
    const entry = this.#of(containerId);
    if (entry === undefined) {
      return;
    }
    entry.ended = true;
    if (entry.facts !== null) {
      return;
    }
    const facts = parseFacts(diagnostics);
    if (Object.keys(facts).length > 0) {
      entry.facts = facts;
    } else {
      entry.failure ||= describeExit(exitStatus, diagnostics);
    }
  }

  /** True once each node has reported its facts or has failed. */
  get hasAllFacts(): boolean {
    return this.#entries.every(({ facts, failure }) => facts !== null || failure !== '');
  }

  /** True once each listening container has ended or has reported which nodes it can reach. */
  get hasAllReached(): boolean {
    return this.#listening().every(({ reached, ended }) => reached !== null || ended);
  }

  /**
   * Returns the nodes to which each container connects: those that follow its own node in a circular list of the nodes with a listening
   * container.
   */
  peers(): ReadonlyMap<string, ProbePeers> {
    const all = this.#listening();
    const ring = [...all, ...all];
    return new Map(
      all.map(({ containerId }, at) => {
        const next = ring.slice(at + 1, at + Math.min(all.length, MOST_PEERS + 1));
        const peers = next.map(({ target, port }) => ({ node: target.node, host: target.host, port: port ?? 0 }));
        return [containerId ?? '', peers];
      }),
    );
  }

  nodes(timeoutMs: number): ProbedNode[] {
    const seconds = `${Math.round(timeoutMs / 1000)} s`;
    return this.#entries.map(({ target, containerId, facts, storage, reached, failure }) => {
      const late =
        containerId === null ? `YARN had no room for a container within ${seconds}` : `its container did not report within ${seconds}`;
      return {
        node: target.node,
        notProbed: facts === null ? failure || late : '',
        facts: facts ?? {},
        storage,
        tried: reached?.tried ?? 0,
        unreached: reached?.unreached ?? [],
      };
    });
  }

  #of(containerId: string): Entry | undefined {
    return this.#entries.find((entry) => entry.containerId === containerId);
  }

  #listening(): Entry[] {
    return this.#entries.filter(({ port, ended }) => port !== null && !ended);
  }
}
