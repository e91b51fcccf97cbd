import type { Server } from 'node:net';
import type { WireSecurity } from '../../conf/job.ts';
import type { Listener } from '../../contract/connections/listener.ts';
import type { Secret } from '../../platform/secret.ts';

export interface RingOptions {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  readonly key: Secret;
  /** How to protect the traffic. Default: `none`. All ranks must use the same setting. */
  readonly security?: WireSecurity;
  readonly listener: Listener | Server;
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  /** The names of the ranks' tasks in messages, for example `worker:1`. Default: `rank 1`. */
  readonly names?: readonly string[];
  /** Called at most once, as soon as the ring loses a neighbour. */
  readonly onLost: (rank: number, cause: string) => void;
  /** Called for each rejected connection and each failed attempt to connect, until the ring is complete. */
  readonly onRefused?: (reason: string) => void;
  readonly timeouts?: Partial<RingTimeouts>;
}

export interface RingTimeouts {
  /** The maximum time in ms that `join` waits for both neighbours. */
  readonly joinMs: number;
  /**
   * The time in ms without traffic after which a call treats the neighbour as lost. The first call waits for `joinMs` if that is longer,
   * because ranks may need different times to load their data.
   */
  readonly silenceMs: number;
  /**
   * How long, in ms, calls keep waiting after a neighbour has been lost. After this time, they fail. The ApplicationMaster usually stops
   * this generation within that time.
   */
  readonly graceMs: number;
}

export const DEFAULT_TIMEOUTS: RingTimeouts = { joinMs: 300_000, silenceMs: 120_000, graceMs: 60_000 };
