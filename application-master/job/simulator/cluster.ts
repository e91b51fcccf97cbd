import type { Role } from '../../../conf/job.ts';
import type { ContainerEnd } from '../../../hadoop/yarn/container-exit.ts';
import type { Container } from '../state/events.ts';
import type { Executor } from './executor.ts';
import { strike, trace, violate, type World } from './world.ts';

export interface SimulatedNode {
  readonly name: string;
  slots: number;
  up: boolean;
  cut: boolean;
  /** True while the NodeManager is down. The node's processes keep running, and their streams stay open. */
  unmanaged: boolean;
}

export interface SimulatedContainer {
  readonly container: Container;
  readonly node: SimulatedNode;
  phase: 'allocated' | 'launching' | 'live' | 'ended';
  executor: Executor | null;
  /**
   * The cluster's reason for ending the container. The cluster reports this reason even if the container exits earlier for a different one.
   */
  fate: { readonly end: ContainerEnd; readonly status: number } | null;
  /** True if the ApplicationMaster has stopped or released the container. */
  reported: boolean;
}

export interface ClusterListener {
  allocated(containers: readonly Container[]): void;
  ended(containerId: string, end: ContainerEnd, exitStatus: number, diagnostics: string): void;
  launchFailed(containerId: string, message: string): void;
}

/** A simulated ResourceManager, and NodeManagers that each have a fixed number of container slots. */
export class Cluster {
  readonly nodes: readonly SimulatedNode[];
  readonly containers = new Map<string, SimulatedContainer>();
  launchFaults: ('refused' | 'mute' | 'dies')[] = [];
  surplusChance = 0;
  readonly #world: World;
  readonly #asks = new Map<string, { count: number; excluded: readonly string[] }>();
  #listener: ClusterListener | null = null;
  #unreported: [string, ContainerEnd, number, string][] = [];
  #downUntil = 0;
  #counter = 0;
  #turning = false;

  constructor(world: World, nodes: readonly SimulatedNode[]) {
    this.#world = world;
    this.nodes = nodes;
  }

  /** Registers an attempt, and returns the previous attempt's containers that are still running. */
  register(listener: ClusterListener): Container[] {
    this.#listener = listener;
    const unreported = this.#unreported;
    this.#unreported = [];
    for (const news of unreported) {
      this.#world.timeline.after(this.#world.random.between(10, 500), () => this.#tell(...news));
    }
    return [...this.containers.values()]
      .filter((each) => each.phase === 'live' || each.phase === 'launching')
      .map((each) => each.container);
  }

  /** Drops an exited attempt's requests, and the containers that were allocated to the attempt but not launched. */
  unregister(): void {
    this.#listener = null;
    this.#asks.clear();
    for (const each of this.containers.values()) {
      if (each.phase === 'allocated') {
        this.end(each, 'expired', -100);
      }
    }
  }

  ask(role: Role, count: number, excluded: readonly string[]): void {
    if (count < 0) {
      violate(this.#world, `a negative number of containers is requested for ${role.name}`);
    }
    const before = this.#asks.get(role.name)?.count ?? 0;
    this.#asks.set(role.name, { count, excluded });
    // An allocation for the previous request may already be in flight.
    if (count < before && this.#world.random.chance(this.surplusChance)) {
      this.#allocate(role.name, []);
    }
    if (!this.#turning && count > 0) {
      this.#turn();
    }
  }

  release(containerId: string): void {
    const each = this.containers.get(containerId);
    if (each === undefined) {
      return;
    }
    each.reported = true;
    this.#world.timeline.after(this.#world.random.between(10, 300), () => this.end(each, 'released', -100));
  }

  launch(containerId: string, makeExecutor: () => Executor): void {
    const { timeline, random } = this.#world;
    const each = this.containers.get(containerId);
    if (each === undefined) {
      return;
    }
    if (each.phase === 'ended') {
      timeline.after(random.between(5, 50), () => this.#listener?.launchFailed(containerId, 'no such container'));
      return;
    }
    if (each.phase !== 'allocated') {
      violate(this.#world, `${containerId} is launched twice`);
      return;
    }
    const fault = timeline.now < this.#world.faultsEnd && random.chance(0.3) ? this.launchFaults.pop() : undefined;
    if (fault === 'refused' || !isManaged(each.node)) {
      timeline.after(
        random.between(5, 3_000),
        () => each.phase === 'allocated' && this.#listener?.launchFailed(containerId, 'connection refused'),
      );
      return;
    }
    if (fault !== undefined) {
      strike(this.#world, containerId, 'launch');
    }
    each.phase = 'launching';
    timeline.after(random.between(fault === 'dies' ? 800 : 50, 3_000), () => {
      if (each.phase !== 'launching') {
        return;
      }
      each.phase = 'live';
      if (fault === 'mute') {
        return;
      }
      if (fault === 'dies') {
        this.#world.charges++;
        this.end(each, 'exited', 127);
      } else {
        each.executor = makeExecutor();
      }
    });
  }

  stop(containerId: string): void {
    const each = this.containers.get(containerId);
    if (each === undefined) {
      return;
    }
    each.reported = true;
    const { timeline, random } = this.#world;
    timeline.after(random.between(10, 200), () => {
      if (!isManaged(each.node)) {
        // The NodeManager does not respond, but the ResourceManager accepts the stop order and reports the container as stopped.
        if (random.chance(0.5) && each.phase !== 'ended') {
          each.phase = 'ended';
          this.#tellSoon(each, 'released', -100, '');
        }
        return;
      }
      each.executor?.terminated();
      timeline.after(random.between(50, 300), () => this.end(each, 'stopped-by-master', -105));
    });
  }

  /** Kills a container on its node. The ResourceManager reports later that the container has ended. */
  end(each: SimulatedContainer, end: ContainerEnd, status: number, diagnostics = ''): void {
    if (each.phase === 'ended') {
      return;
    }
    each.phase = 'ended';
    const fate = each.fate ?? { end, status };
    trace(this.#world, () => `container ${each.container.id} ends: ${fate.end} ${fate.status}`);
    each.executor?.die();
    this.#tellSoon(each, fate.end, fate.status, diagnostics);
  }

  restart(ms: number): void {
    this.#downUntil = this.#world.timeline.now + ms;
  }

  /** Turns the machine off. The ResourceManager detects only much later that the node is lost. */
  crash(node: SimulatedNode, noticeAfter: number): void {
    node.up = false;
    for (const each of this.containers.values()) {
      if (each.node === node) {
        each.executor?.die();
      }
    }
    this.#world.timeline.after(noticeAfter, () => {
      for (const each of this.containers.values()) {
        if (each.node === node) {
          this.end(each, 'node-lost', -100, 'Container released on a *lost* node');
        }
      }
      node.up = true;
    });
  }

  /** Disconnects the machine from the network. Its processes keep running, even after the ResourceManager has reported them as ended. */
  cut(node: SimulatedNode, ms: number, noticeAfter: number): void {
    node.cut = true;
    const affected = [...this.containers.values()].filter((each) => each.node === node && each.phase !== 'ended');
    for (const each of affected) {
      each.executor?.stream?.break(30_000);
    }
    // Kill suspended executors, because they cannot enforce their leases, and tony-ts gives no guarantee if a suspension and a network
    // failure occur together.
    for (const each of affected) {
      if (each.executor?.frozen === true) {
        each.executor.die();
      }
    }
    this.#giveUp(affected, ms, noticeAfter, () => (node.cut = false));
  }

  /** Stops the NodeManager. Its containers keep running. */
  abandon(node: SimulatedNode, ms: number, noticeAfter: number): void {
    node.unmanaged = true;
    const affected = [...this.containers.values()].filter((each) => each.node === node && each.phase !== 'ended');
    for (const each of affected) {
      if (each.executor?.frozen === true) {
        each.executor.die();
      }
    }
    this.#giveUp(affected, ms, noticeAfter, () => (node.unmanaged = false));
  }

  /** The ResourceManager reports containers on a silent node as ended. Their NodeManager kills them when it reconnects. */
  #giveUp(affected: readonly SimulatedContainer[], ms: number, noticeAfter: number, back: () => void): void {
    const { timeline } = this.#world;
    if (noticeAfter < ms) {
      timeline.after(noticeAfter, () => {
        for (const each of affected) {
          if (each.phase === 'ended') {
            continue;
          }
          each.phase = 'ended';
          this.#tellSoon(each, 'node-lost', -100, 'Container released on a *lost* node');
        }
      });
    }
    timeline.after(ms, () => {
      back();
      for (const each of affected) {
        if (each.phase === 'ended') {
          each.executor?.die();
        }
      }
    });
  }

  #tellSoon(each: SimulatedContainer, end: ContainerEnd, status: number, diagnostics: string): void {
    const delay = this.#world.random.between(50, each.fate === null ? 1_200 : 400);
    this.#world.timeline.after(delay, () => this.#tell(each.container.id, end, status, diagnostics));
  }

  #tell(containerId: string, end: ContainerEnd, status: number, diagnostics: string): void {
    const wait = this.#downUntil - this.#world.timeline.now;
    if (wait > 0) {
      // Until the ResourceManager reports the cause, the job machine sees only a silent executor and charges the failure.
      this.#world.charges++;
      this.#world.timeline.after(wait + 1, () => this.#tell(containerId, end, status, diagnostics));
    } else if (this.#listener === null) {
      this.#unreported.push([containerId, end, status, diagnostics]);
    } else {
      this.#listener.ended(containerId, end, status, diagnostics);
      if (this.#world.random.chance(0.03)) {
        this.#listener.ended(containerId, end, status, diagnostics);
      }
    }
  }

  #turn(): void {
    this.#turning = true;
    if (this.#world.timeline.now >= this.#downUntil) {
      for (const [name, { count, excluded }] of this.#asks) {
        for (let n = 0; n < count && this.#world.random.chance(0.8); n++) {
          this.#allocate(name, excluded);
        }
      }
    }
    if ([...this.#asks.values()].some(({ count }) => count > 0)) {
      this.#world.timeline.after(250, () => this.#turn());
    } else {
      this.#turning = false;
    }
  }

  #allocate(name: string, excluded: readonly string[]): void {
    // Ignore the excluded nodes in 10% of cases: a real ResourceManager may allocate a container before it receives the exclusion.
    const choosy = this.#world.random.chance(0.9);
    const free = this.nodes.filter((node) => {
      if (!isManaged(node) || (choosy && excluded.includes(node.name))) {
        return false;
      }
      let used = 0;
      for (const each of this.containers.values()) {
        if (each.node === node && each.phase !== 'ended') {
          used++;
        }
      }
      return used < node.slots;
    });
    const node = this.#world.random.pick(free);
    if (node === undefined || this.#listener === null) {
      return;
    }
    const asked = this.#asks.get(name);
    if (asked !== undefined && asked.count > 0) {
      this.#asks.set(name, { ...asked, count: asked.count - 1 });
    }
    const id = `c${++this.#counter}`;
    const container: Container = { id, role: name, node: node.name, nodeHttp: '', memoryMb: 1024 };
    this.containers.set(id, { container, node, phase: 'allocated', executor: null, fate: null, reported: false });
    trace(this.#world, () => `allocate ${id} for ${name} on ${node.name}`);
    this.#listener.allocated([container]);
  }
}

function isManaged(node: SimulatedNode): boolean {
  return node.up && !node.cut && !node.unmanaged;
}
