import { open } from 'node:fs/promises';
import path from 'node:path';
import type { FrozenJob } from '../../conf/job.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { ContainerLogs } from '../../hadoop/logs/container-logs.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { TonyError } from '../../platform/errors.ts';
import type { LogName, LogTail } from '../../web/job-view.ts';

const MAXIMUM_TAIL_BYTES = 1024 * 1024;
const DEADLINE_MS = 10_000;
/** Maximum number of concurrent reads. Each read can use up to `MAXIMUM_TAIL_BYTES` bytes of memory. */
const MAXIMUM_READS = 8;

export interface LoggedContainer {
  readonly containerId: string;
  /** Web address of the container's NodeManager as `host:port`, or null if unknown. */
  readonly nodeHttp: string | null;
}

/** Reads the ends of this process's log files and of the job's containers' log files. */
export class TaskLogs {
  readonly #frozen: FrozenJob;
  readonly #ownFolders: readonly string[];
  readonly #cluster: ContainerLogs | null;
  #reads = 0;

  /** @param options.logDirs value of the `LOG_DIRS` environment variable: folders separated by commas */
  constructor(options: { frozen: FrozenJob; hadoop: HadoopConfiguration | null; logDirs: string }) {
    this.#frozen = options.frozen;
    this.#ownFolders = options.logDirs.split(',').filter((folder) => folder !== '');
    this.#cluster = options.hadoop === null ? null : new ContainerLogs({ configuration: options.hadoop, user: options.frozen.user });
  }

  /** Reads one of the ApplicationMaster's log files. Returns null if the file does not exist. */
  async own(file: LogName, tail: number): Promise<LogTail | null> {
    for (const folder of this.#ownFolders) {
      const found = await tailOf(path.join(folder, file), bounded(tail));
      if (found !== null) {
        return found;
      }
    }
    return null;
  }

  /**
   * Reads a container's log file. Returns null if the file does not exist.
   * @throws TonyError LOGS_UNAVAILABLE, and the errors that hadoop/logs/container-logs.ts throws
   */
  async read(owner: LoggedContainer, file: LogName, tail: number): Promise<LogTail | null> {
    const { cluster } = this.#frozen;
    if (cluster.kind === 'local') {
      return tailOf(path.join(cluster.directory, owner.containerId, 'logs', file), bounded(tail));
    }
    if (this.#cluster === null) {
      return null;
    }
    if (this.#reads === MAXIMUM_READS) {
      throw new TonyError('LOGS_UNAVAILABLE', 'Too many logs are being read at the same time.', { hint: 'Try again in a moment.' });
    }
    this.#reads++;
    const reading = this.#cluster
      .read({ ...owner, owner: this.#frozen.user }, file, { tail: bounded(tail), limit: MAXIMUM_TAIL_BYTES })
      .finally(() => {
        this.#reads--;
      });
    const piece = await withTimeout(reading, DEADLINE_MS, () => {
      throw new TonyError('LOGS_UNAVAILABLE', `${file} of ${owner.containerId} could not be read within ${DEADLINE_MS / 1000} s.`);
    });
    return piece === null ? null : textOf(piece.bytes, piece.offset);
  }

  close(): void {
    this.#cluster?.close();
  }
}

async function tailOf(file: string, tail: number): Promise<LogTail | null> {
  const handle = await open(file, 'r').catch(() => null);
  if (handle === null) {
    return null;
  }
  try {
    const { size } = await handle.stat();
    const offset = Math.max(0, size - tail);
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(size - offset), 0, null, offset);
    return textOf(buffer.subarray(0, bytesRead), offset);
  } finally {
    await handle.close();
  }
}

function bounded(tail: number): number {
  return Math.min(MAXIMUM_TAIL_BYTES, Math.max(0, tail));
}

function textOf(bytes: Buffer, offset: number): LogTail {
  let cut = 0;
  while (offset > 0 && cut < Math.min(3, bytes.length) && ((bytes[cut] as number) & 0xc0) === 0x80) {
    cut++;
  }
  return { text: bytes.subarray(cut).toString('utf8'), skipped: offset + cut };
}
