import type { Generation } from '../state/counters.ts';
import type { ProgramExit } from '../state/events.ts';
import { strike, trace, violate, type World } from './world.ts';

export interface Program {
  readonly role: string;
  readonly index: number;
  readonly part: 'worker' | 'server' | null;
  readonly rank: number | null;
  readonly worldSize: number;
  readonly generation: Generation;
  readonly containerId: string;
  alive: boolean;
  /** True while SIGSTOP suspends the program. */
  stopped: boolean;
  /** True if the program is running, but its peers do not receive any data from it. */
  mute: boolean;
  lostRank: number | null;
  readonly ended: (exit: ProgramExit) => void;
}

const CHECKPOINT_MS = 2_000;

/** How a program reacts to a lost peer: it reports the loss and waits, reports the loss and exits, or exits without reporting the loss. */
export type Manners = 'waits' | 'says so' | 'crashes';

/**
 * Simulates all of the user's programs. The ranked programs in a generation make progress together, starting at the newest checkpoint. With
 * parameter servers, each worker makes progress on its own as long as all servers are running.
 */
export class Training {
  /** For each task, the newest generation in which it exited with code 0. */
  readonly succeeded = new Map<string, number>();
  /** Number of programs that will fail once they have finished their work. */
  failAtEnd = 0;
  readonly #world: World;
  readonly #servers: number;
  readonly #work: number;
  readonly #manners: Manners;
  readonly #alone: ReadonlyMap<string, number>;
  readonly #alive = new Set<Program>();
  #saved = 0;
  #since: number | null = null;
  #runs = 0;
  #running = 0;

  constructor(world: World, options: { servers: number; work: number; manners: Manners; alone: ReadonlyMap<string, number> }) {
    this.#world = world;
    this.#servers = options.servers;
    this.#work = options.work;
    this.#manners = options.manners;
    this.#alone = options.alone;
  }

  get programs(): ReadonlySet<Program> {
    return this.#alive;
  }

  start(program: Program): void {
    for (const other of this.#alive) {
      if (other.role !== program.role || other.index !== program.index) {
        continue;
      }
      // In the gang, it is safe if a task's older program is still running, because newer generations reject its messages. Outside the
      // gang, a task must never have two programs running at the same time.
      if (program.part === null || other.generation === program.generation) {
        violate(
          this.#world,
          `${program.role}:${program.index} runs twice in generation ${program.generation}: in ${other.containerId} and ${program.containerId}`,
        );
      }
    }
    this.#alive.add(program);
    if (program.part !== null) {
      this.#proceed(program.generation);
      for (const other of this.#alive) {
        if (other.mute && other.part === 'server' && other.generation === program.generation && program.part === 'worker') {
          this.#losePeer(program, program.worldSize + other.index);
        }
      }
      return;
    }
    const ms = this.#alone.get(program.role);
    if (ms !== undefined) {
      const tryEnd = () => {
        if (!program.alive) {
          return;
        }
        if (program.stopped) {
          this.#world.timeline.after(1_000, tryEnd);
        } else {
          this.end(program, 0, '');
        }
      };
      this.#world.timeline.after(ms, tryEnd);
    }
  }

  end(program: Program, code: number, signal: string, report = true): void {
    if (!program.alive) {
      return;
    }
    program.alive = false;
    this.#alive.delete(program);
    trace(
      this.#world,
      () => `program ${program.role}:${program.index} g${program.generation} in ${program.containerId} ends ${code} ${signal}`,
    );
    if (code === 0) {
      this.#note(program);
    } else if (program.part !== null) {
      this.#peersNotice(program);
    }
    if (report) {
      program.ended({
        generation: program.generation,
        code,
        signal,
        stderrTail: code === 0 ? '' : 'Error: something broke',
        permanent: false,
      });
    }
  }

  stop(program: Program): void {
    program.stopped = true;
    if (program.part !== null) {
      this.#pauseWithout(program);
      if (this.#world.random.chance(0.5)) {
        this.#peersNotice(program);
      }
    }
  }

  get checkpointStep(): number {
    return Math.floor(this.#done() / CHECKPOINT_MS);
  }

  get isProgressing(): boolean {
    return this.#since !== null;
  }

  hasPeers(program: Program): boolean {
    return this.#saved < this.#work && (this.#servers > 0 || this.#workers(program.generation).some((other) => other !== program));
  }

  silence(program: Program): void {
    program.mute = true;
    this.#peersNotice(program);
    // A worker detects that it has lost its server. The other workers continue.
    if (this.#servers > 0 && program.part === 'worker') {
      this.#losePeer(program, program.worldSize + this.#world.random.between(0, this.#servers - 1));
    }
  }

  /** Keep the newest generation, because a disconnected program from an older generation may exit late. */
  #note({ role, index, generation }: Program): void {
    const key = `${role}:${index}`;
    this.succeeded.set(key, Math.max(generation, this.succeeded.get(key) ?? 0));
  }

  #peersNotice(lost: Program): void {
    this.#pauseWithout(lost);
    if (this.#servers > 0 && lost.part === 'worker') {
      return;
    }
    for (const peer of this.#alive) {
      if (peer.part === 'worker' && peer.generation === lost.generation && peer !== lost) {
        this.#losePeer(peer, lost.rank ?? lost.worldSize + lost.index);
      }
    }
  }

  #losePeer(peer: Program, rank: number): void {
    const { timeline, random } = this.#world;
    // A program needs at least some milliseconds to detect the loss, to print the error and to exit.
    timeline.after(random.between(30, 300), () => {
      if (!peer.alive || peer.stopped) {
        return;
      }
      if (this.#manners !== 'crashes') {
        peer.lostRank ??= rank;
      }
      if (this.#manners === 'waits') {
        timeline.after(60_000, () => this.end(peer, 1, ''));
      } else {
        this.end(peer, 1, '');
      }
    });
  }

  #present(generation: Generation): Program[] {
    return [...this.#alive].filter((program) => program.generation === generation && !program.stopped && !program.mute);
  }

  #workers(generation: Generation): Program[] {
    return this.#present(generation).filter(({ part }) => part === 'worker');
  }

  #complete(generation: Generation): boolean {
    const present = this.#present(generation);
    const workers = present.filter(({ part }) => part === 'worker');
    if (this.#servers === 0) {
      return workers.length > 0 && workers.length === workers[0]?.worldSize;
    }
    return workers.length > 0 && present.filter(({ part }) => part === 'server').length === this.#servers;
  }

  #pauseWithout(lost: Program): void {
    if (this.#servers > 0 && lost.part === 'worker' && this.#complete(lost.generation)) {
      return;
    }
    this.#pause(lost.generation);
  }

  #proceed(generation: Generation): void {
    // With parameter servers, an additional worker does not affect the running workers.
    if (!this.#complete(generation) || (this.#since !== null && this.#running === generation)) {
      return;
    }
    const { timeline, random } = this.#world;
    const run = ++this.#runs;
    this.#running = generation;
    this.#since = timeline.now;
    timeline.after(Math.max(1, this.#work - this.#saved), () => {
      if (run !== this.#runs || this.#since === null) {
        return;
      }
      this.#saved = this.#work;
      this.#since = null;
      // The large spread lets some programs exit before another one fails.
      const spread = random.chance(0.2) ? 8_000 : 400;
      for (const program of this.#workers(generation)) {
        timeline.after(random.between(0, spread), () => {
          if (!program.alive || program.stopped || program.mute || program.lostRank !== null) {
            return;
          }
          const fails = this.failAtEnd > 0 && random.chance(0.5);
          if (fails) {
            this.failAtEnd--;
            this.#world.charges++;
            strike(this.#world, program.containerId, 'exit');
          }
          this.end(program, fails ? 4 : 0, '');
        });
      }
    });
  }

  #pause(generation: Generation): void {
    if (this.#since === null || this.#running !== generation) {
      return;
    }
    this.#saved = Math.max(this.#saved, Math.floor(this.#done() / CHECKPOINT_MS) * CHECKPOINT_MS);
    this.#since = null;
    this.#runs++;
  }

  #done(): number {
    return this.#saved + (this.#since === null ? 0 : this.#world.timeline.now - this.#since);
  }
}
