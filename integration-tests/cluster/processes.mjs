/**
 * Finds processes through /proc instead of pid files, so that a signal never reaches an unrelated process with a reused pid. A command-line
 * argument identifies a daemon. The working directory or the LOCAL_DIRS variable identifies a container. Reads synchronously, which takes a
 * tenth of the processor time: tests look for processes many times per second.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** @typedef {{ pid: number, args: string[] }} Running */
/** @typedef {{ pid: number, command: string, containerId: string | null, applicationId: string | null }} ContainerProcess */

const CONTAINER_ID = /container_(?:e\d+_)?(\d+_\d+)_\d+_\d+/;

/** @returns {number[]} */
function pids() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/**
 * Returns the contents of a file in /proc, or '' when the process has ended or belongs to another user.
 * @param {number} pid
 * @param {string} name
 */
function read(pid, name) {
  return orElse('', () => readFileSync(`/proc/${pid}/${name}`, 'utf8'));
}

/**
 * Returns `missing` when the process has ended or belongs to another user.
 * @template T
 * @param {T} missing
 * @param {() => T} attempt
 * @returns {T}
 */
function orElse(missing, attempt) {
  try {
    return attempt();
  } catch {
    return missing;
  }
}

/** @param {number} pid */
function commandLine(pid) {
  return read(pid, 'cmdline').split('\0').join(' ').trim();
}

/** @param {number} pid */
function workingDirectory(pid) {
  return orElse('', () => readlinkSync(`/proc/${pid}/cwd`));
}

/**
 * Returns the parent and the session of a running process. A zombie process counts as ended.
 * @param {number} pid
 */
function lifeOf(pid) {
  const text = read(pid, 'stat');
  // Format: "pid (name) state ppid group session ...". The name may contain spaces and parentheses.
  const [state, ppid, , session] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return state && state !== 'Z' && state !== 'X' ? { ppid: Number(ppid), session: Number(session) } : null;
}

/** @param {number} pid */
export function isAlive(pid) {
  return lifeOf(pid) !== null;
}

/**
 * Lists the running processes with a command-line argument that starts with `prefix`.
 * @param {string} prefix
 * @returns {Running[]}
 */
export function processesWithArgument(prefix) {
  return pids().flatMap((pid) => {
    const args = read(pid, 'cmdline').split('\0').slice(0, -1);
    return args.some((arg) => arg.startsWith(prefix)) && isAlive(pid) ? [{ pid, args }] : [];
  });
}

/**
 * Returns the command lines of the processes whose working directory is `folder` or below it.
 * @param {string} folder
 * @returns {string[]}
 */
export function processesWorkingIn(folder) {
  return pids()
    .filter((pid) => `${workingDirectory(pid)}/`.startsWith(`${folder}/`))
    .map(commandLine);
}

/**
 * Lists the running processes of containers whose directories are below `folder`: the launch scripts and all their descendants. The
 * environment, the working directory, the parent or the session identifies a process.
 * @param {string} folder
 * @returns {ContainerProcess[]}
 */
export function containerProcesses(folder) {
  const living = pids().map((pid) => ({ pid, life: lifeOf(pid), containerId: containerOf(pid, folder) }));
  /** @type {Map<number, string | null>} */
  const found = new Map(living.flatMap(({ pid, life, containerId }) => (life && containerId !== undefined ? [[pid, containerId]] : [])));
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const { pid, life } of living) {
      if (life === null || found.has(pid)) {
        continue;
      }
      const kin = [life.ppid, life.session].find((each) => found.has(each));
      if (kin !== undefined) {
        found.set(pid, found.get(kin) ?? null);
      }
    }
  }
  return [...found].map(([pid, containerId]) => ({
    pid,
    command: commandLine(pid),
    containerId,
    applicationId: containerId?.replace(CONTAINER_ID, 'application_$1') ?? null,
  }));
}

/**
 * Returns the ID of the container that contains a process. Returns null if the ID is unknown, and undefined if the process is in no
 * container below `folder`.
 * @param {number} pid
 * @param {string} folder
 */
function containerOf(pid, folder) {
  const cwd = workingDirectory(pid);
  const environment = `\0${read(pid, 'environ')}`;
  if (!cwd.startsWith(`${folder}/`) && !environment.includes(`\0LOCAL_DIRS=${folder}/`)) {
    return undefined;
  }
  const [, given] = /\0(CONTAINER_ID=[^\0]*)/.exec(environment) ?? [];
  return CONTAINER_ID.exec(given ?? cwd)?.[0] ?? null;
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function signal(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') {
      throw error;
    }
  }
}

/**
 * Describes the process that listens on a TCP port of this machine, for an error message. Returns null if the process cannot be determined.
 * @param {number} port
 * @returns {string | null}
 */
export function listenerOf(port) {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const inodes = new Set();
  for (const table of ['tcp', 'tcp6']) {
    const lines = orElse('', () => readFileSync(`/proc/net/${table}`, 'utf8'))
      .split('\n')
      .slice(1);
    for (const line of lines) {
      // Columns: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode. State (`st`) 0A is LISTEN.
      const fields = line.trim().split(/\s+/);
      if (fields[1]?.endsWith(`:${hex}`) && fields[3] === '0A') {
        inodes.add(`socket:[${fields[9]}]`);
      }
    }
  }
  for (const pid of pids()) {
    const descriptors = orElse([], () => readdirSync(`/proc/${pid}/fd`));
    if (descriptors.some((fd) => inodes.has(orElse('', () => readlinkSync(`/proc/${pid}/fd/${fd}`))))) {
      return `process ${pid} (${commandLine(pid).slice(0, 80).trim()})`;
    }
  }
  return null;
}
