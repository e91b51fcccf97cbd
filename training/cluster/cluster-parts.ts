import type * as tfjs from '@tensorflow/tfjs';
import type { Storage } from '../../storage/storage.ts';
import type { BackendName } from '../backend/backend.ts';
import type { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import type { ParameterServerWorker } from '../parameter-server/worker/parameter-server-worker.ts';
import type { Report } from '../process/task-context.ts';
import type { Ring } from '../ring/ring.ts';
import type { Wire } from '../ring/ring-exchange.ts';

/** The parts from which `join` composes a `Cluster`. */
export interface ClusterParts {
  readonly tf: typeof tfjs;
  readonly backend: BackendName;
  /** Connections between the ranks. With parameter servers, each worker is the only member of its ring. */
  readonly ring: Ring;
  /** Number format in which the ranks exchange gradients. */
  readonly wire: Wire;
  /** Connections to the parameter servers, or null if the job has none. */
  readonly servers: ParameterServerWorker | null;
  readonly ranked: boolean;
  readonly role: string;
  readonly index: number;
  readonly applicationId: string;
  readonly jobName: string;
  readonly generation: number;
  readonly data: Readonly<Record<string, string>>;
  readonly storage: Storage;
  readonly checkpoint: { readonly dir: string; readonly everySteps: number; readonly keep: number } | null;
  readonly summaryDir: string | null;
  readonly outputDir: string | null;
  readonly roleSize: number;
  /** Orders from the executor to write a checkpoint immediately. */
  readonly checkpointOrder: CheckpointOrder;
  /** The container's memory in MiB, or null if `fit` cannot estimate whether the memory suffices. */
  readonly memoryMb: number | null;
  readonly report: (report: Report) => void;
}
