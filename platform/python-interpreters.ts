import { execFile } from 'node:child_process';
import path from 'node:path';
import type { Packages } from './python-packages.ts';

/** Python interpreter that can run the given packages. */
export interface Python {
  readonly command: string;
  /** Python version, for example `3.11`. */
  readonly version: string;
  /**
   * Absolute path of the interpreter itself. `command` may instead be a script that selects an interpreter, or a command in a virtual
   * environment.
   */
  readonly executable: string;
  /** Folders from which the interpreter imports packages. */
  readonly packages: readonly string[];
}

const PROBE =
  'import platform, sys; print("%d.%d" % sys.version_info[:2], platform.machine(), sys.implementation.name, getattr(sys, "_base_executable", "") or sys.executable)';
const PROBE_MS = 20_000;
const MOST_UNFIT = 4;
/** Options that make Python ignore the user's settings and all other installed packages. */
export const ISOLATION = ['-I', '-S'] as const;

/**
 * Finds the Python interpreters on the PATH that can run these packages, newest version first. Runs each candidate, because a file on the
 * PATH may not work. If there is no suitable interpreter, returns a message with the reasons.
 */
export async function findPythons(
  packages: Packages,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Python[] | string> {
  const versions = [...packages.pythons.keys()].sort((a, b) => minorOf(b) - minorOf(a));
  const names = [...versions.map((version) => `python${version}`), 'python3'];
  const folders = (environment.PATH || '/usr/local/bin:/usr/bin:/bin').split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  const commands = names.flatMap((name) => folders.map((folder) => path.join(folder, name)));
  const answers = await Promise.all(commands.map(async (command) => ({ command, answer: await probe(command, environment) })));
  const found = new Map<string, Python>();
  const unfit: string[] = [];
  for (const { command, answer } of answers) {
    if (answer === null) {
      continue;
    }
    const [version = '', machine = '', implementation = '', ...words] = answer.split(' ');
    const executable = words.join(' ') || command;
    const folders = packages.pythons.get(version);
    if (folders === undefined) {
      unfit.push(`${command} is ${version}`);
    } else if (packages.machine !== null && machine !== packages.machine) {
      unfit.push(`${command} is for ${machine}, but these packages are for ${packages.machine}`);
    } else if (implementation !== 'cpython') {
      unfit.push(`${command} is ${implementation}`);
    } else if (!found.has(version)) {
      found.set(version, { command, version, executable, packages: folders });
    }
  }
  if (found.size > 0) {
    return [...found.values()];
  }
  const [newest] = versions;
  const range = versions.length > 1 ? `${versions.at(-1)} to ${newest}` : newest;
  return `${packages.title} needs Python ${range} on the PATH${unfit.length > 0 ? `; ${unfit.slice(0, MOST_UNFIT).join('; ')}` : ''}.`;
}

function minorOf(version: string): number {
  return Number(version.split('.')[1]);
}

/**
 * Returns the version, the machine type, the implementation and the executable, for example `3.11 x86_64 cpython /usr/bin/python3.11`.
 * Returns null if the command fails.
 */
function probe(command: string, environment: Readonly<Record<string, string | undefined>>): Promise<string | null> {
  const options = { timeout: PROBE_MS, killSignal: 'SIGKILL', env: environment, maxBuffer: 64 * 1024 } as const;
  return new Promise((resolve) => {
    execFile(command, [...ISOLATION, '-c', PROBE], options, (error, stdout) => resolve(error === null ? stdout.trim() : null));
  });
}
