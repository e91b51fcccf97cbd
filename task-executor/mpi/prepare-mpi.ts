import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import type { GangPlace } from '../frameworks/gang.ts';
import { AS_ROOT, mpiHosts, mpirunVariables, sharedHostVariables } from '../frameworks/mpi.ts';
import { nodeCommand } from '../frameworks/node-command.ts';

/** Contents of the launcher's input file. */
export interface LaunchPlan {
  /** The user's bash command. */
  readonly command: string;
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Writes the files that mpirun uses to start processes in other tasks.
 * @param folder the container's working directory
 * @returns the task's bash command
 */
export async function prepareMpi(folder: string, place: GangPlace & { readonly rank: number | null }, command: string): Promise<string> {
  const program = path.join(folder, CONTAINER_LAYOUT.bundles, 'mpi.mjs');
  const own = path.join(folder, `mpi-${place.generation}`);
  await Promise.all([own, path.join(folder, `mpi-${place.generation - 1}`)].map((each) => rm(each, { recursive: true, force: true })));
  if (place.rank !== 0) {
    return `exec ${nodeCommand(program, 'agent')}`;
  }
  await mkdir(own, { mode: 0o700 });
  const at = (name: string): string => path.join(own, name);
  const files = { openMpiHosts: at('hosts'), hydraHosts: at('hydra-hosts'), remoteShell: at('remote-shell') };
  const hosts = mpiHosts(place);
  const environment = {
    ...mpirunVariables(files),
    ...sharedHostVariables(place),
    ...(process.getuid?.() === 0 && AS_ROOT),
    // mpirun uses the path of its own working directory in all tasks. In each task, /proc/self/cwd leads to the task's own working
    // directory.
    PWD: '/proc/self/cwd',
  };
  const plan: LaunchPlan = { command, environment };
  await Promise.all([
    writeFile(files.openMpiHosts, hosts.openMpi),
    writeFile(files.hydraHosts, hosts.hydra),
    writeFile(files.remoteShell, `#!/bin/sh\nexec ${nodeCommand(program, 'shell')} "$@"\n`, { mode: 0o700 }),
    writeFile(at('plan.json'), JSON.stringify(plan), { mode: 0o600 }),
  ]);
  return `exec ${nodeCommand(program, 'launch', at('plan.json'))}`;
}
