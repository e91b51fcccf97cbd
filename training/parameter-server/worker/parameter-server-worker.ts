import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import { capture } from '../../model/stored-tensors.ts';
import { restoreWeights } from '../../model/training-state.ts';
import type { LoopContext, LoopStrategy } from '../../strategy/loop-strategy.ts';
import type { StrategyContext, StrategyFactory, TrainingStrategy } from '../../strategy/strategy.ts';
import { parameterServerStrategy } from './parameter-server-strategy.ts';
import { RemoteLoop } from './remote-loop.ts';
import { ServerGroup, type WorkerOptions } from './server-group.ts';
import { ServerLoop } from './server-loop.ts';

/** The run number for broadcasts. The program's own runs are numbered from 1. */
const BROADCAST_RUN = 0;

/** A worker's training operations in a job with parameter servers. */
export class ParameterServerWorker implements StrategyFactory {
  readonly rank: number;
  readonly worldSize: number;
  readonly #options: WorkerOptions;
  readonly #strategy: StrategyFactory;
  #loop: RemoteLoop | null = null;
  readonly #checkpointed = new Set<ServerLoop>();
  #runs = BROADCAST_RUN;
  #broadcastServers: ServerGroup | null = null;
  #broadcasts = 0;

  constructor(options: WorkerOptions) {
    this.rank = options.rank;
    this.worldSize = options.worldSize;
    this.#options = options;
    this.#strategy = parameterServerStrategy({ ...options, nextRun: () => this.#nextRun(), settle: () => this.settle() });
  }

  /** Opens the strategy for `fit`. Training begins once all workers have ended their earlier custom steps. */
  open(context: StrategyContext): TrainingStrategy {
    return this.#strategy.open(context);
  }

  /** Opens a loop with checkpoints. The loop begins once all workers have ended their earlier custom steps. */
  openLoop(context: LoopContext): LoopStrategy {
    const loop = new ServerLoop(
      { ...this.#options, nextRun: () => this.#nextRun(), settle: () => this.settle(), onDispose: () => this.#checkpointed.delete(loop) },
      context,
    );
    this.#checkpointed.add(loop);
    return loop;
  }

  /**
   * Takes one custom step, and then pulls the current values of all variables that this worker has used in custom steps. Each step may use
   * different variables and optimizers, but all workers must use them in the same order.
   */
  async step(
    tf: typeof tfjs,
    loss: () => tfjs.Scalar,
    optimizer: tfjs.Optimizer,
    variables: () => readonly tfjs.Variable[],
    examples?: number,
  ): Promise<number> {
    this.#loop ??= new RemoteLoop(tf, this.#options, this.#nextRun());
    return await this.#loop.step(loss, optimizer, variables(), examples);
  }

  /**
   * Ends the custom steps. Resolves once all workers have called this method. All workers then have the same weights and optimizers. The
   * next custom step starts with rank 0's values.
   */
  async settle(): Promise<void> {
    const loop = this.#loop;
    this.#loop = null;
    await loop?.finish();
  }

  /** Copies rank 0's values to the variables of every worker. */
  async broadcast(tf: typeof tfjs, variables: readonly tfjs.Variable[]): Promise<void> {
    this.#broadcastServers ??= await ServerGroup.open(this.#options, BROADCAST_RUN);
    const servers = this.#broadcastServers;
    const named = variables.map((variable, index) => ({ name: `model:${index}:`, variable }));
    const number = this.#broadcasts;
    this.#broadcasts++;
    if (this.rank === 0) {
      await servers.put(0, number, await capture(tf, named));
    } else {
      restoreWeights(tf, named, await servers.get(0, number), 'the broadcast of rank 0');
    }
  }

  /** Closes the connections to the servers. Synchronous, for use in exit handlers. */
  close(): void {
    this.#loop?.close();
    for (const loop of this.#checkpointed) {
      loop.close();
    }
    this.#broadcastServers?.close(true);
  }

  #nextRun(): number {
    this.#runs++;
    return this.#runs;
  }
}

/** Creates the error for an operation that requires all workers to step together. */
export function unsupportedWithServers(what: string): TonyError {
  return new TonyError('USAGE', `${what} requires workers that step together, but with parameter servers each worker steps independently`, {
    hint: 'Set strategy: all-reduce in job.yaml, or remove the call.',
  });
}
