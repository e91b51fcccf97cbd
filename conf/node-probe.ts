import type { LocalResource } from '../hadoop/yarn/local-resource.ts';
import type { YarnCluster } from './job.ts';

/*
 * Types for the data that `tony-ts doctor --probe` exchanges. The client writes a ProbeOrder to job.json. The ApplicationMaster starts one
 * container per node, and writes a ProbeResult to the same folder.
 */

/** File names in the bundle folder and in a probe's staging folder. */
export const PROBE_LAYOUT = { master: 'probe-master.mjs', script: 'probe.sh', node: 'probe-node.mjs', result: 'probe.json' } as const;

/** Maximum length of a message. Each message is one line of JSON. */
export const LONGEST_MESSAGE = 256 * 1024;

export interface ProbeOrder {
  readonly version: 1;
  readonly applicationId: string;
  readonly user: string;
  /** URI of the folder that contains job.json. */
  readonly staging: string;
  readonly cluster: YarnCluster;
  /** Files that the containers need. */
  readonly resources: readonly LocalResource[];
  readonly nodes: readonly NodeToProbe[];
  /** Time limit in ms for YARN to allocate all containers and for the containers to report. */
  readonly timeoutMs: number;
}

export interface NodeToProbe {
  /** Address of the NodeManager (`host:port`). */
  readonly node: string;
  readonly host: string;
  readonly rack: string;
  /** The node's label, or null if it has none. */
  readonly label: string | null;
}

/** First message from a container. */
export interface ProbeFacts {
  readonly type: 'facts';
  readonly containerId: string;
  /** Output of probe.sh. */
  readonly facts: string;
  /** Port on which the container listens. */
  readonly port: number;
  /** Reason why the container cannot read a file on HDFS. Empty if the container can read the file. */
  readonly storage: string;
}

/** Response to ProbeFacts. Lists the containers to which this container connects. */
export interface ProbePeers {
  readonly type: 'peers';
  readonly peers: readonly { readonly node: string; readonly host: string; readonly port: number }[];
}

/** Last message from a container. */
export interface ProbeReached {
  readonly type: 'reached';
  readonly tried: number;
  readonly unreached: readonly Unreached[];
}

export interface Unreached {
  /** Address of the NodeManager that the container could not reach. */
  readonly node: string;
  readonly reason: string;
}

export interface ProbedNode {
  readonly node: string;
  /** Reason why no facts about the node are known. Empty if facts are known. */
  readonly notProbed: string;
  /** Facts keyed by name (see probe.sh). A name can have several values. */
  readonly facts: Readonly<Record<string, readonly string[]>>;
  /** Reason why a container on this node cannot read a file on HDFS. Empty if it can read the file, and null if this is unknown. */
  readonly storage: string | null;
  /** Number of nodes to which the container tried to connect, or 0 if the connections were not tested. */
  readonly tried: number;
  readonly unreached: readonly Unreached[];
}

export interface ProbeResult {
  readonly version: 1;
  /** Host of the ApplicationMaster. */
  readonly master: string;
  readonly nodes: readonly ProbedNode[];
}

const FACT = /^tony-probe ([a-zA-Z]{1,32})=(.{0,500})$/gm;
const MOST_FACTS = 64;

/** Reads the facts in the output of probe.sh. YARN's diagnostics may contain only part of this output. */
export function parseFacts(text: string): Record<string, string[]> {
  const facts: Record<string, string[]> = {};
  for (const [, name = '', value = ''] of [...text.matchAll(FACT)].slice(0, MOST_FACTS)) {
    facts[name] = [...(facts[name] ?? []), value.trim()];
  }
  return facts;
}
