import type { Origin } from './checkpoint-format.ts';

/** An unfinished checkpoint, to which several processes may contribute. Can be sent as JSON. */
export interface PendingCheckpoint extends Origin {
  readonly step: number;
  /** The folder that contains the checkpoint's files. */
  readonly uri: string;
}

/** How checkpoints appear and disappear. The protocol depends on what the storage can do atomically. */
export interface CheckpointPublication {
  /** Prevents all older generations of the application from publishing checkpoints. */
  retireOlderThan(origin: Origin): Promise<void>;
  /** Returns true if the generation has been retired. */
  isFenced(origin: Origin): Promise<boolean>;
  /** Removes anything left by this generation's earlier attempts. Returns the URI of the folder for a new attempt's files. */
  begin(step: number, origin: Origin): Promise<string>;
  /** Returns true if `begin` could have returned this folder. The pending checkpoint may come from the network. */
  isPendingHere(pending: PendingCheckpoint): boolean;
  /** Returns the sub-folder of a complete checkpoint that contains the files of `pending`; undefined if they are beside the index. */
  subFolder(pending: PendingCheckpoint): string | undefined;
  /**
   * Completes a checkpoint whose files have been written: adds the index as the last file, and replaces any existing checkpoint of the same
   * step.
   * @returns the checkpoint's URI.
   * @throws an error of any type if the generation has been retired.
   */
  publish(pending: PendingCheckpoint, index: Buffer): Promise<string>;
  /** Hides a checkpoint from readers, then removes it unless `isProtected` now returns true. */
  drop(step: number, isProtected: () => Promise<boolean>): Promise<void>;
  /** Resolves with the steps of all complete checkpoints, in any order. */
  steps(): Promise<number[]>;
}

const STEP = /^step-(\d{1,15})$/;

/** Returns the step in a checkpoint folder's name; null for other names. */
export function stepOf(name: string): number | null {
  const digits = STEP.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Returns the name of an application's folder below `.pending`. A standalone program has an empty application ID. */
export function folderNameOf(applicationId: string): string {
  return applicationId === '' ? 'alone' : applicationId;
}

/** Returns true if the application ID is safe to use as a name. An ID with `/` or `..` would lead outside the checkpoint folder. */
export function isSafeId(applicationId: string): boolean {
  return /^[\w-]*$/.test(applicationId);
}
