/**
 * The profile `cgroups`: like `container-executor`, and NodeManagers limit the CPU and memory of containers with Linux control groups
 * (version 1).
 */

import { accessSync, constants, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_EXECUTOR, containerExecutorProblem } from './container-executor.mjs';

const CONTROLLERS = ['cpu', 'memory'];
/** Group below which NodeManagers create a group for each container. */
const HIERARCHY = 'tony-ts-yarn';

/** @type {import('./profiles.mjs').Profile} */
export const CGROUPS = {
  ...CONTAINER_EXECUTOR,
  prepare: async () => {
    const problem = cgroupsProblem();
    if (problem !== null) {
      throw new Error(problem);
    }
    // NodeManagers do not create this group.
    await Promise.all(CONTROLLERS.map((controller) => mkdir(path.join(mountOf(controller) ?? '', HIERARCHY), { recursive: true })));
  },
  properties: (place) => ({
    yarn: {
      ...CONTAINER_EXECUTOR.properties(place).yarn,
      'yarn.nodemanager.resource.cpu.enabled': true,
      'yarn.nodemanager.resource.memory.enabled': true,
      'yarn.nodemanager.resource.memory.enforced': true,
      'yarn.nodemanager.linux-container-executor.cgroups.hierarchy': `/${HIERARCHY}`,
      'yarn.nodemanager.linux-container-executor.cgroups.mount': false,
      'yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage': true,
    },
  }),
};

/** Returns the reason why this machine cannot run the profile; null if it can. */
export function cgroupsProblem() {
  const problem = containerExecutorProblem();
  if (problem !== null) {
    return problem;
  }
  const missing = CONTROLLERS.filter((controller) => mountOf(controller) === null);
  if (missing.length > 0) {
    const step = 'start the machine with systemd.unified_cgroup_hierarchy=0, or mount the controllers: mount -t cgroup -o NAME none FOLDER';
    return `the profile cgroups needs the cgroup v1 controllers cpu and memory; ${missing.join(' and ')} cannot be found in /proc/mounts (${step})`;
  }
  const closed = CONTROLLERS.map((controller) => mountOf(controller) ?? '').find((folder) => !isWritable(folder));
  return closed === undefined
    ? null
    : `the profile cgroups creates groups in ${closed}, which is read-only: run mount -o remount,rw ${closed}`;
}

/**
 * Returns the folder of the cgroup of a container. YARN gives this name to it.
 * @param {'cpu' | 'memory'} controller
 * @param {string} containerId
 */
export function cgroupOf(controller, containerId) {
  return path.join(mountOf(controller) ?? '', HIERARCHY, containerId);
}

/**
 * @param {string} controller
 * @returns {string | null} the folder at which a cgroup v1 controller is mounted
 */
function mountOf(controller) {
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '));
  return mounts.find(([, , type, options = '']) => type === 'cgroup' && options.split(',').includes(controller))?.[1] ?? null;
}

/** @param {string} folder */
function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
