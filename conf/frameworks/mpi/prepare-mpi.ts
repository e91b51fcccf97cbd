import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { FrameworkTask, TaskTools } from '../framework.ts';
import { ownMember, rankedMembers } from '../gang.ts';
import { nodeCommand } from '../node-command.ts';
import { AS_ROOT, mpiHosts, mpirunVariables, sharedHostVariables } from './mpirun.ts';

/** Contents of the launcher's input file. */
export interface LaunchPlan {
  /** The user's bash command. */
  readonly command: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Folder to put first in PATH. */
  readonly bin: string;
}

/** Commands that start MPI processes in all tasks. */
const LAUNCHERS = ['mpirun', 'mpiexec', 'mpiexec.hydra', 'orterun', 'prterun'];

/**
 * Returns a script that runs the command of the same name that follows in PATH. The command uses the path of its own working directory in
 * all tasks. In each task, /proc/self/cwd leads to the task's own working directory. A shell would replace this value with its first `cd`.
 * In a subfolder of the task's folder, the daemons of the other tasks run in their own subfolders (remote-shell.ts).
 */
function launcherScript(name: string, bin: string): string {
  return `#!/bin/bash
PATH=\${PATH//${bin.replaceAll('/', '\\/')}:/}
cd -P . && case "$PWD/" in "$TONY_MPI_FOLDER"/*) exec env PWD=/proc/self/cwd ${name} "$@" ;; esac
exec ${name} "$@"
`;
}

/**
 * Writes the files that mpirun uses to start processes in other tasks. Rank 0 runs mpirun, and the other ranks run the commands that mpirun
 * sends.
 * @returns the task's bash command, or null for a task that does not take part in MPI, because it has no rank
 */
export async function prepareMpi(place: FrameworkTask, { command, folder, programs }: TaskTools): Promise<string | null> {
  const self = ownMember(rankedMembers(place), place);
  if (self === undefined) {
    return null;
  }
  const program = path.join(programs, 'mpi.mjs');
  const own = path.join(folder, `mpi-${place.generation}`);
  await Promise.all([own, path.join(folder, `mpi-${place.generation - 1}`)].map((each) => rm(each, { recursive: true, force: true })));
  if (self.taskRank !== 0) {
    return `exec ${nodeCommand(program, 'agent')}`;
  }
  await mkdir(own, { mode: 0o700 });
  const bin = path.join(own, 'bin');
  await mkdir(bin, { mode: 0o700 });
  const at = (name: string): string => path.join(own, name);
  const files = { openMpiHosts: at('hosts'), hydraHosts: at('hydra-hosts'), remoteShell: at('remote-shell') };
  const hosts = mpiHosts(place);
  const environment = {
    ...mpirunVariables(files),
    ...sharedHostVariables(place),
    ...(process.getuid?.() === 0 && AS_ROOT),
    // For commands that name the path of mpirun. A shell keeps this value until its first `cd`.
    PWD: '/proc/self/cwd',
  };
  const plan: LaunchPlan = { command, environment, bin };
  await Promise.all([
    writeFile(files.openMpiHosts, hosts.openMpi),
    writeFile(files.hydraHosts, hosts.hydra),
    writeFile(files.remoteShell, `#!/bin/sh\nexec ${nodeCommand(program, 'shell')} "$@"\n`, { mode: 0o700 }),
    ...LAUNCHERS.map((name) => writeFile(path.join(bin, name), launcherScript(name, bin), { mode: 0o700 })),
    writeFile(at('plan.json'), JSON.stringify(plan), { mode: 0o600 }),
  ]);
  return `exec ${nodeCommand(program, 'launch', at('plan.json'))}`;
}
