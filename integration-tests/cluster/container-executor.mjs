/**
 * The profile `container-executor`: NodeManagers run the containers of a job as the job's user, with Hadoop's program `container-executor`
 * (LinuxContainerExecutor). Maven has no package with this program, so the developer provides it.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { CACHE } from './layout.mjs';

/** Environment variable with the path of the program. `PROGRAM` is the default path. */
const VARIABLE = 'TONY_CONTAINER_EXECUTOR';
const PROGRAM = path.join(CACHE, 'container-executor', 'bin', 'container-executor');
/** The users of jobs need accounts on this machine. */
const USERS = ['alice', 'bob'];
/** Permissions that Hadoop requires: set-user-ID and set-group-ID, and no access for other users. */
const MODE = 0o6050;

/** @type {import('./profiles.mjs').Profile} */
export const CONTAINER_EXECUTOR = {
  processes: [],
  prepare: async () => {
    const problem = containerExecutorProblem();
    if (problem !== null) {
      throw new Error(problem);
    }
  },
  begin: async () => {},
  properties: () => ({
    yarn: {
      'yarn.nodemanager.container-executor.class': 'org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor',
      'yarn.nodemanager.linux-container-executor.path': program(),
      'yarn.nodemanager.linux-container-executor.group': groupOf(program()),
      // By default, the LinuxContainerExecutor runs all containers as `nobody` on a cluster without Kerberos.
      'yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users': false,
    },
  }),
  javaFlags: () => [],
};

/** Returns the reason why this machine cannot run the profile; null if it can. */
export function containerExecutorProblem() {
  const file = program();
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) {
    return `the profile container-executor needs Hadoop's program container-executor: ${file} does not exist (see docs/development.md)`;
  }
  if (process.getuid?.() !== 0) {
    return 'the profile container-executor needs NodeManagers that run as root';
  }
  if (found.uid !== 0 || found.gid === 0 || (found.mode & 0o7777) !== MODE) {
    return `${file} must belong to root and the group in container-executor.cfg, and have mode ${MODE.toString(8)}`;
  }
  const missing = USERS.filter((user) => !isAccount(user));
  if (missing.length > 0) {
    return `the profile container-executor needs accounts on this machine for ${missing.join(' and ')} (useradd)`;
  }
  const closed = ancestorsOf(CACHE).find((folder) => ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0o001) & 0o001) === 0);
  return closed === undefined ? null : `containers of other users cannot reach the cluster's folders: run chmod o+x ${closed}`;
}

/** Returns the path of the program's configuration. */
export function executorConfiguration() {
  return path.join(path.dirname(program()), '..', 'etc', 'hadoop', 'container-executor.cfg');
}

function program() {
  return process.env[VARIABLE] || PROGRAM;
}

/** @param {string} user */
function isAccount(user) {
  try {
    execFileSync('id', ['-u', user], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the name of the group to which a file belongs; null if the file does not exist.
 * @param {string} file
 */
function groupOf(file) {
  const gid = statSync(file, { throwIfNoEntry: false })?.gid;
  const lines = readFileSync('/etc/group', 'utf8').split('\n');
  return lines.map((line) => line.split(':')).find(([, , id]) => id === String(gid))?.[0] ?? null;
}

/**
 * @param {string} folder
 * @returns {string[]}
 */
function ancestorsOf(folder) {
  const parent = path.dirname(folder);
  return parent === folder ? [folder] : [folder, ...ancestorsOf(parent)];
}
