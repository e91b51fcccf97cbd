import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';
import type { StoredTensor } from '../checkpoint-format.ts';
import { localGradients } from '../local-gradients.ts';
import type { StrategyContext, StrategyFactory, TrainingStrategy } from '../strategy.ts';
import { copyOf, restoreWeights } from '../training-state.ts';
import { parameterServerStrategy } from './parameter-server-strategy.ts';
import { RemoteVariables } from './remote-variables.ts';
import { ServerGroup, type ServerGroupOptions } from './server-group.ts';

export interface WorkerOptions extends ServerGroupOptions {
  /** See ParameterServers. */
  readonly staleness: number | null;
}

/** Of the mail that is no run's. */
const MAIL_RUN = 0;

/** A worker of a job with parameter servers: what its program does with them. */
export class ParameterServerWorker implements StrategyFactory {
  readonly rank: number;
  readonly worldSize: number;
  readonly #options: WorkerOptions;
  readonly #strategy: StrategyFactory;
  readonly #loops = new Map<tfjs.Optimizer, Loop>();
  #runs = MAIL_RUN;
  #mail: ServerGroup | null = null;
  #broadcasts = 0;

  constructor(options: WorkerOptions) {
    this.rank = options.rank;
    this.worldSize = options.worldSize;
    this.#options = options;
    this.#strategy = parameterServerStrategy({ ...options, nextRun: () => this.#nextRun() });
  }

  /** For `fit`. */
  open(context: StrategyContext): TrainingStrategy {
    return this.#strategy.open(context);
  }

  /** One step of the program's own loop: `variables` have new values when it is done. */
  async step(
    tf: typeof tfjs,
    loss: () => tfjs.Scalar,
    optimizer: tfjs.Optimizer,
    variables: () => readonly tfjs.Variable[],
  ): Promise<number> {
    let loop = this.#loops.get(optimizer);
    if (loop === undefined) {
      loop = new Loop(tf, this.#options, this.#nextRun(), optimizer, variables());
      this.#loops.set(optimizer, loop);
    }
    return await loop.step(loss);
  }

  /** Gives the variables of every worker the values that they have on rank 0. */
  async broadcast(tf: typeof tfjs, variables: readonly tfjs.Variable[]): Promise<void> {
    this.#mail ??= await ServerGroup.open(this.#options, MAIL_RUN);
    const servers = this.#mail;
    const named = variables.map((variable, index) => ({ name: `model:${index}:`, variable }));
    const name = `broadcast ${this.#broadcasts}`;
    this.#broadcasts++;
    if (this.rank === 0) {
      await servers.put(0, name, await Promise.all(named.map(async (each) => await storedOf(tf, each.name, each.variable))));
    } else {
      restoreWeights(tf, named, await servers.get(0, name), 'what rank 0 has sent');
    }
  }

  /** Says goodbye to the servers. Synchronous, so that it works at exit. */
  close(): void {
    for (const loop of this.#loops.values()) {
      loop.close();
    }
    this.#mail?.close(true);
  }

  #nextRun(): number {
    this.#runs++;
    return this.#runs;
  }
}

async function storedOf(tf: typeof tfjs, name: string, variable: tfjs.Variable): Promise<StoredTensor> {
  return { name, dtype: variable.dtype as StoredTensor['dtype'], shape: variable.shape, bytes: await copyOf(tf, variable) };
}

/** A loop of the program's own, by one optimizer. */
class Loop {
  readonly #tf: typeof tfjs;
  readonly #options: WorkerOptions;
  readonly #run: number;
  readonly #optimizer: tfjs.Optimizer;
  readonly #variables: readonly tfjs.Variable[];
  #servers: ServerGroup | null = null;
  #remote: RemoteVariables | null = null;

  constructor(tf: typeof tfjs, options: WorkerOptions, run: number, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[]) {
    this.#tf = tf;
    this.#options = options;
    this.#run = run;
    this.#optimizer = optimizer;
    this.#variables = variables;
  }

  async step(loss: () => tfjs.Scalar): Promise<number> {
    this.#remote ??= await this.#begin();
    const part = { compute: () => ({ loss: loss(), metrics: [] }), weight: 1 };
    const { gradients, values } = localGradients(this.#tf, this.#variables, [part]);
    const [value = 0] = values.read();
    try {
      await this.#remote.push(gradients);
    } finally {
      this.#tf.dispose(gradients ?? []);
    }
    return value;
  }

  async #begin(): Promise<RemoteVariables> {
    const { rank, staleness } = this.#options;
    const servers = await ServerGroup.open(this.#options, this.#run);
    this.#servers = servers;
    const remote = new RemoteVariables({
      ...{ tf: this.#tf, rank, servers, staleness, optimizer: this.#optimizer, variables: this.#variables },
      tensors: this.#variables.map(({ name }, index) => `model:${index}:${name}`),
      placed: [],
    });
    if (rank === 0 && (await remote.needsPreparing())) {
      await remote.prepare(null, null);
      await remote.open();
    }
    await remote.join();
    await remote.pull(false);
    return remote;
  }

  close(): void {
    this.#servers?.close(true);
  }
}

/** Of what needs all workers in each step. */
export function noSuchThing(what: string): TonyError {
  return new TonyError('USAGE', `${what} needs workers that step together; with parameter servers each steps by itself`, {
    hint: 'Set strategy: all-reduce in job.yaml, or do without it.',
  });
}
