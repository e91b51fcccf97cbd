import type * as tfjs from '@tensorflow/tfjs';
import type { CheckpointWriter } from '../../../contract/checkpoint/checkpoint-writer.ts';
import { TonyError } from '../../../platform/errors.ts';
import { RemoteVariables } from './remote-variables.ts';
import { ServerGroup, type WorkerOptions } from './server-group.ts';

export interface ParameterServers extends WorkerOptions {
  /** Returns the number of the next run. All workers number their runs in the same order. */
  readonly nextRun: () => number;
  /** Ends the program's earlier custom steps. All workers must call this function. */
  readonly settle?: () => Promise<void>;
}

/** A worker's side of one run: the connections to the servers, and the checkpoint writer. */
export class ServerRun {
  /** The checkpoint writer, or null on workers other than the chief and in jobs without a checkpoint folder. */
  readonly writer: CheckpointWriter | null;
  /** True once this worker has ended the run. The servers then do not wait for this worker. */
  finished = false;
  readonly #options: ParameterServers;
  readonly #number: number;
  #opened: { readonly servers: ServerGroup; readonly remote: RemoteVariables } | null = null;

  constructor(options: ParameterServers, writer: CheckpointWriter | null) {
    this.#options = options;
    this.#number = options.nextRun();
    this.writer = writer;
  }

  async open(tf: typeof tfjs): Promise<void> {
    const { rank, staleness } = this.#options;
    const servers = await ServerGroup.open(this.#options, this.#number);
    this.#opened = { servers, remote: new RemoteVariables({ tf, rank, servers, staleness }) };
  }

  /** @throws TonyError USAGE if the run has not been opened. */
  get servers(): ServerGroup {
    return this.#get().servers;
  }

  /** @throws TonyError USAGE if the run has not been opened. */
  get remote(): RemoteVariables {
    return this.#get().remote;
  }

  #get(): { readonly servers: ServerGroup; readonly remote: RemoteVariables } {
    if (this.#opened === null) {
      throw new TonyError('USAGE', 'begin() must be called first');
    }
    return this.#opened;
  }

  /** Closes the connections. @param announced true if this worker ends deliberately, so the other workers do not wait for it. */
  close(announced = this.finished): void {
    this.writer?.giveUp();
    this.#opened?.servers.close(announced);
  }
}
