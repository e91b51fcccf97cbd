import type { Member } from '../../../contract/process/task-context.ts';
import { asGeneration, type Generation } from '../state/counters.ts';
import type { ProgramExit, UntimedEvent } from '../state/events.ts';
import type { Program, Training } from './training.ts';
import { trace, violate, type World } from './world.ts';

export interface Endpoint {
  readonly attempt: number;
  accept(stream: Stream, hello: UntimedEvent, lostRank: number | null): void;
  receive(stream: Stream, message: UntimedEvent): void;
  lost(stream: Stream): void;
}

export interface ExecutorOptions {
  readonly containerId: string;
  readonly role: string;
  readonly index: number;
  /** The task's part in the gang: workers train, and servers store the weights. Null for tasks outside the gang. */
  readonly part: 'worker' | 'server' | null;
  readonly intervalMs: number;
  readonly leaseMs: number;
  readonly graceMs: number;
  readonly training: Training;
  /** Returns null while the ApplicationMaster cannot be reached. */
  readonly master: () => Endpoint | null;
  readonly exit: (status: number) => void;
}

/** An ordered stream with simulated latency. When the stream breaks, messages in flight are lost. */
export class Stream {
  open = true;
  #upAt = 0;
  #downAt = 0;
  readonly #world: World;
  readonly executor: Executor;
  readonly master: Endpoint;

  constructor(world: World, executor: Executor, master: Endpoint) {
    this.#world = world;
    this.executor = executor;
    this.master = master;
  }

  up(deliver: () => void): void {
    this.#upAt = Math.max(this.#upAt, this.#world.timeline.now + this.#latency());
    this.#world.timeline.after(this.#upAt - this.#world.timeline.now, () => this.open && deliver());
  }

  down(deliver: () => void): void {
    this.#downAt = Math.max(this.#downAt, this.#world.timeline.now + this.#latency());
    this.#world.timeline.after(this.#downAt - this.#world.timeline.now, () => this.open && deliver());
  }

  /** @param noticedWithin maximum time in ms until the executor detects the broken stream */
  break(noticedWithin = 1_500): void {
    if (!this.open) {
      return;
    }
    this.open = false;
    const { timeline, random } = this.#world;
    timeline.after(random.between(0, 300), () => this.master.lost(this));
    timeline.after(random.between(0, noticedWithin), () => this.executor.lostStream(this));
  }

  #latency(): number {
    const { random, slowestMs } = this.#world;
    return random.chance(0.05) ? random.between(30, slowestMs) : random.between(1, 20);
  }
}

/** Simulates an executor as far as the ApplicationMaster can observe it. */
export class Executor {
  readonly options: ExecutorOptions;
  alive = true;
  /** True while SIGSTOP suspends the executor. The program keeps running. */
  frozen = false;
  program: Program | null = null;
  stream: Stream | null = null;
  readonly #world: World;
  #port = 0;
  #portFor = asGeneration(0);
  #portUsed = false;
  #changing = false;
  #starting = 0;
  #exit: ProgramExit | null = null;
  /** Time of a failed exit that has not been reported yet, because the last checkpoint is being stored. */
  #unreported: number | null = null;
  /** Difference between the cluster's time and the executor's monotonic clock. */
  readonly #startedAt: number;
  #lostRank: number | null = null;
  #since: number;
  #attempt = 0;

  constructor(world: World, options: ExecutorOptions) {
    this.#world = world;
    this.options = options;
    this.#since = world.timeline.now;
    this.#startedAt = world.random.between(0, 1_000_000);
    this.#port = this.#world.ports++;
    this.connect();
  }

  connect(): void {
    if (!this.alive || this.frozen || this.stream?.open === true) {
      return;
    }
    const { timeline, random } = this.#world;
    if (timeline.now - this.#since >= this.options.leaseMs) {
      trace(this.#world, () => `lease of ${this.options.containerId} has expired`);
      this.leave(0);
      return;
    }
    const master = this.options.master();
    if (master === null || master.attempt < this.#attempt) {
      timeline.after(500, () => this.connect());
      return;
    }
    this.#attempt = master.attempt;
    const stream = new Stream(this.#world, this, master);
    this.stream = stream;
    const hello = this.#hello();
    const lostRank = this.program?.lostRank ?? this.#lostRank;
    stream.up(() => {
      master.accept(stream, hello, lostRank);
      this.#beat(stream);
    });
    if (random.chance(0.01) && timeline.now < this.#world.faultsEnd) {
      timeline.after(random.between(0, 100), () => stream.break());
    }
  }

  lostStream(stream: Stream): void {
    if (this.stream !== stream) {
      return;
    }
    this.stream = null;
    this.#since = this.#world.timeline.now;
    this.connect();
  }

  prepare(generation: Generation): void {
    if (!this.alive || this.frozen) {
      return;
    }
    if (this.#portFor === generation && !this.#portUsed && !this.#changing) {
      this.#say({ type: 'ready', containerId: this.options.containerId, generation, port: this.#port });
      return;
    }
    if (generation < this.#portFor) {
      return;
    }
    // Ignore the order, because the executor is still carrying out the same order.
    if (generation === this.#portFor && this.#changing) {
      return;
    }
    this.#portFor = generation;
    this.#portUsed = false;
    this.#changing = true;
    this.#starting++;
    this.#world.timeline.after(this.#endingMs(), () => {
      if (!this.alive || this.#portFor !== generation) {
        return;
      }
      this.#endProgram('SIGKILL', false);
      this.#exit = null;
      this.#lostRank = null;
      this.#changing = false;
      this.#port = this.#world.ports++;
      if (!this.frozen) {
        this.#say({ type: 'ready', containerId: this.options.containerId, generation, port: this.#port });
      }
    });
  }

  start(generation: Generation, members: readonly Member[]): void {
    if (!this.alive || this.frozen) {
      return;
    }
    const { containerId, role, index, part } = this.options;
    if (this.program?.generation === generation) {
      this.#say({ type: 'started', containerId, generation, pid: 1 });
      return;
    }
    if (this.#portUsed || this.#changing) {
      if (this.#portFor !== generation) {
        violate(this.#world, `${containerId} is ordered to start generation ${generation} without a port for it`);
      }
      return;
    }
    const self = members.find((member) => member.role === role && member.index === index);
    if (part !== null && self?.port !== this.#port) {
      violate(this.#world, `${containerId} has port ${this.#port}, but its start order states ${self?.port}`);
    }
    this.#portUsed = true;
    this.#portFor = generation;
    this.#world.starts++;
    const starting = ++this.#starting;
    this.#world.timeline.after(this.#world.random.between(1, 300), () => {
      if (!this.alive || starting !== this.#starting) {
        return;
      }
      const program: Program = {
        role,
        index,
        part,
        rank: self?.taskRank ?? null,
        worldSize: members.filter((member) => member.taskRank !== null).length,
        generation,
        containerId,
        alive: true,
        stopped: false,
        mute: false,
        lostRank: null,
        ended: (exit) => this.#programEnded(program, exit),
      };
      this.program = program;
      this.options.training.start(program);
      this.#say({ type: 'started', containerId, generation, pid: 1 });
    });
  }

  stop(atOnce: boolean): void {
    if (this.alive && !this.frozen) {
      this.#world.timeline.after(atOnce ? this.#world.random.between(10, 800) : this.#endingMs(), () => this.leave(0));
    }
  }

  /** Returns the time in ms until the program has ended after SIGTERM. Some programs use the whole grace period. */
  #endingMs(): number {
    const { random } = this.#world;
    return random.between(5, 600) + (this.program !== null && random.chance(0.3) ? this.options.graceMs : 0);
  }

  leave(status: number): void {
    if (!this.alive || this.frozen) {
      return;
    }
    this.alive = false;
    this.#endProgram('SIGKILL', false);
    const { stream } = this;
    // The last message may be lost when the connection breaks.
    if (stream !== null && !this.#world.random.chance(0.1)) {
      this.#say({ type: 'left', containerId: this.options.containerId });
      stream.up(() => stream.break());
    } else {
      stream?.break();
    }
    this.options.exit(status);
  }

  die(): void {
    this.alive = false;
    this.#endProgram('SIGKILL', false);
    this.stream?.break();
  }

  /**
   * Called when the cluster kills the container. The program receives SIGTERM, and the executor may still report that the program has
   * exited.
   */
  terminated(): void {
    if (!this.frozen) {
      this.#endProgram('SIGTERM', true);
    }
  }

  #endProgram(signal: string, report: boolean): void {
    this.#unreported = null;
    if (this.program !== null) {
      this.options.training.end(this.program, -1, signal, report);
    }
    this.program = null;
  }

  #programEnded(program: Program, exit: ProgramExit): void {
    if (this.program !== program || !this.alive) {
      return;
    }
    const clock = this.#clock();
    const { random, timeline } = this.#world;
    if (exit.code === 0 || !random.chance(0.1)) {
      this.#reportExit(program, { ...exit, clock });
      return;
    }
    this.#unreported = clock;
    timeline.after(random.between(50, 5_000), () => {
      if (this.program === program && this.alive) {
        this.#reportExit(program, { ...exit, clock });
      }
    });
  }

  #reportExit(program: Program, exit: ProgramExit): void {
    this.#unreported = null;
    this.#exit = exit;
    this.#lostRank = program.lostRank;
    this.program = null;
    if (this.frozen) {
      return;
    }
    if (program.lostRank !== null) {
      this.#say({ ...this.#heartbeat(program), clock: exit.clock } as UntimedEvent);
    }
    this.#say({ type: 'exited', containerId: this.options.containerId, exit });
  }

  #clock(): number {
    return this.#unreported ?? this.#world.timeline.now - this.#startedAt;
  }

  #hello(): UntimedEvent {
    const { containerId, role, index } = this.options;
    const where = { containerId, role, index, host: 'host', clock: this.#clock() } as const;
    if (this.program !== null) {
      return { type: 'hello', ...where, generation: this.program.generation, phase: 'running', port: this.#port, exit: null };
    }
    if (this.#exit !== null) {
      return { type: 'hello', ...where, generation: this.#exit.generation, phase: 'ended', port: this.#port, exit: this.#exit };
    }
    // A program counts as running as soon as the executor has been ordered to start it.
    const phase = this.#portUsed ? 'running' : 'idle';
    return {
      type: 'hello',
      ...where,
      generation: this.#changing ? asGeneration(0) : this.#portFor,
      phase,
      port: this.#changing ? 0 : this.#port,
      exit: null,
    };
  }

  #heartbeat(program: Program | null): UntimedEvent {
    return {
      type: 'heartbeat',
      containerId: this.options.containerId,
      clock: this.#clock(),
      generation: program?.generation ?? this.#portFor,
      usage: { memoryBytes: 0, cpuCores: 0, gpus: [], stopped: program?.stopped ?? false },
      progress:
        program === null || (program.lostRank === null && program.rank === null)
          ? null
          : {
              step: 1,
              metrics: {},
              checkpointStep: this.options.training.checkpointStep,
              lostRank: program.lostRank,
              notices: [],
              earlyEnd: null,
              ending: false,
            },
    };
  }

  #beat(stream: Stream): void {
    if (!this.alive || this.frozen || !stream.open || this.stream !== stream) {
      return;
    }
    this.#say(this.#heartbeat(this.program));
    this.#world.timeline.after(this.options.intervalMs, () => this.#beat(stream));
  }

  #say(message: UntimedEvent): void {
    const { stream } = this;
    stream?.up(() => stream.master.receive(stream, message));
  }
}
