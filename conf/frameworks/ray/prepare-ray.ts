import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { FrameworkTask, TaskTools } from '../framework.ts';
import { ownMember, rankedMembers } from '../gang.ts';
import { nodeCommand } from '../node-command.ts';

/** Part of a container's memory that Ray's object store may use, as in Ray's own default, which counts the whole node's memory. */
const OBJECT_STORE_PART = 0.3;
const MIB = 1024 * 1024;

/** Contents of the input file of programs/main.ts. */
export interface RayPlan {
  /** The user's bash command. */
  readonly command: string;
  /** Options of `ray start` that describe the container's resources. */
  readonly options: string;
}

/**
 * Writes the file with which programs/main.ts starts Ray in the task.
 * @returns the task's bash command, or null for a task that does not take part in Ray, because it has no rank
 */
export async function prepareRay(task: FrameworkTask, { command, folder, programs }: TaskTools): Promise<string | null> {
  if (ownMember(rankedMembers(task), task) === undefined) {
    return null;
  }
  const at = (generation: number): string => path.join(folder, `ray-${generation}.json`);
  const plan: RayPlan = { command, options: resourceOptions(task.resources) };
  await Promise.all([at(task.generation), at(task.generation - 1)].map((each) => rm(each, { force: true })));
  await writeFile(at(task.generation), JSON.stringify(plan), { mode: 0o600 });
  return `exec ${nodeCommand(path.join(programs, 'ray.mjs'), at(task.generation))}`;
}

/** Without these options, Ray would use the resources of the whole node. */
export function resourceOptions({ memoryMb, vcores, gpus }: FrameworkTask['resources']): string {
  const memory = memoryMb * MIB;
  const objectStore = Math.floor(memory * OBJECT_STORE_PART);
  return `--num-cpus=${vcores} --num-gpus=${gpus} --memory=${memory - objectStore} --object-store-memory=${objectStore}`;
}
