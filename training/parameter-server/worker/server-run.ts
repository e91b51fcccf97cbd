import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import type { CheckpointWriter } from '../../checkpoint/checkpoint-writer.ts';
import { RemoteVariables } from './remote-variables.ts';
import { ServerGroup, type WorkerOptions } from './server-group.ts';

export interface ParameterServers extends WorkerOptions {
  /** Returns the number of the next run. All workers number their runs in the same order. */
  readonly nextRun: () => number;
  /** Ends the custom steps that the program took before this run. All workers must call it. */
  readonly settle?: () => Promise<void>;
}

/** A worker's side of one run, of `fit` or of a custom loop: the connections to the servers, and the writer of checkpoints. */
export class ServerRun {
  /** Null on workers other than the chief, and without a checkpoint folder. */
  readonly writer: CheckpointWriter | null;
  /** True if this worker has ended the run, and the servers need not wait for it. */
  finished = false;
  readonly #options: ParameterServers;
  readonly #number: number;
  #opened: { readonly servers: ServerGroup; readonly remote: RemoteVariables } | null = null;

  constructor(options: ParameterServers, writer: CheckpointWriter | null) {
    this.#options = options;
    this.#number = options.nextRun();
    this.writer = writer;
  }

  /** Connects to the servers. */
  async open(tf: typeof tfjs): Promise<void> {
    const { rank, staleness } = this.#options;
    const servers = await ServerGroup.open(this.#options, this.#number);
    this.#opened = { servers, remote: new RemoteVariables({ tf, rank, servers, staleness }) };
  }

  /** @throws TonyError USAGE before `open` */
  get servers(): ServerGroup {
    return this.#get().servers;
  }

  /** @throws TonyError USAGE before `open` */
  get remote(): RemoteVariables {
    return this.#get().remote;
  }

  #get(): { readonly servers: ServerGroup; readonly remote: RemoteVariables } {
    if (this.#opened === null) {
      throw new TonyError('USAGE', 'begin() must be called first');
    }
    return this.#opened;
  }

  /** Closes the connections. @param announced true if this worker ends deliberately, so that the others do not wait for it */
  close(announced = this.finished): void {
    this.writer?.giveUp();
    this.#opened?.servers.close(announced);
  }
}
