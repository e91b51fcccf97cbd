import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { ROOT } from './command.ts';
import { type TestCluster, until } from './harness.ts';
import { HANGS_MS } from './until.ts';

export interface RunOptions {
  /** File that passes the working directory and the exported variables from one command to the next. */
  readonly shell?: string;
  /** Output that proves that the command works. The test then sends Ctrl-C. */
  readonly ready?: RegExp | undefined;
}

export interface ShellResult {
  readonly exitCode: number | null;
  /** stdout and stderr together. */
  readonly output: string;
}

/** The shell of a reader of the documents: `tony-ts` and `hdfs` are on the PATH, and the home folder is empty. */
export class ReadersShell {
  readonly #environment: Readonly<Record<string, string>>;

  private constructor(environment: Readonly<Record<string, string>>) {
    this.#environment = environment;
  }

  /**
   * @param folder receives the programs and the home folder
   * @param own variables of the user, such as HADOOP_USER_NAME or KRB5CCNAME
   * @param cluster the reader's cluster, or null for a reader without one
   * @param hdfsUser the user of `hdfs` on a cluster without Kerberos
   */
  static async open(
    folder: string,
    cluster: TestCluster | null,
    own: Readonly<Record<string, string>>,
    hdfsUser = '',
  ): Promise<ReadersShell> {
    const [bin, home] = [path.join(folder, 'bin'), path.join(folder, 'home')];
    await Promise.all([mkdir(bin), mkdir(home)]);
    const inherited = Object.entries(process.env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined && !/^(HADOOP_|TONY_|VITEST|NODE_OPTIONS$|FORCE_COLOR$|DISPLAY$|WAYLAND_DISPLAY$)/.test(entry[0]),
    );
    await script(path.join(bin, 'tony-ts'), `exec '${process.execPath}' '${path.join(ROOT, 'dist', 'tony-ts.js')}' "$@"`);
    if (cluster !== null) {
      const java = (await cluster.clientProgram('org.apache.hadoop.fs.FsShell')).map((word) => `'${word}'`).join(' ');
      await script(path.join(bin, 'hdfs'), `[ "$1" = dfs ] || exit 2\nshift\nHADOOP_USER_NAME='${hdfsUser}' exec ${java} "$@"`);
    }
    return new ReadersShell({
      ...Object.fromEntries(inherited),
      NO_COLOR: '1',
      ...own,
      HOME: home,
      PATH: `${bin}${path.delimiter}${process.env.PATH ?? ''}`,
      TONY_CACHE_DIR: process.env.TONY_CACHE_DIR ?? path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'tony-ts'),
      ...(cluster !== null && { TONY_CLUSTER_OFFSET: String(cluster.offset) }),
    });
  }

  /** Runs a command in a shell. npm and npx run in the checkout. */
  async run(command: string, cwd: string, { shell = '/dev/null', ready }: RunOptions = {}): Promise<ShellResult> {
    const inCheckout = /^(npm|npx|eval "\$\(npm) /.test(command);
    const line = inCheckout ? `pushd '${ROOT}' > /dev/null\n${command}\ncode=$?; popd > /dev/null` : `${command}\ncode=$?`;
    const keep = `{ printf 'cd %q\\n' "$PWD"; export -p; } > '${shell}'`;
    const restore = `[ ! -e '${shell}' ] || . '${shell}'`;
    // `exec` replaces the shell with the server, so the server receives the signal.
    const text = ready === undefined ? `${restore}\n${line}\n${keep}\nexit $code` : `${restore}\nexec ${command}`;
    const child = spawn('bash', ['-c', text], { cwd, env: this.#environment, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (piece: string) => {
        output += piece;
      });
    }
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
    const limit = setTimeout(() => signalGroup(child, 'SIGKILL'), HANGS_MS);
    try {
      if (ready !== undefined) {
        await Promise.race([until(() => ready.test(output), { describe: () => `${ready} of ${command}: ${output}` }), closed]);
        signalGroup(child, 'SIGINT');
      }
      return { exitCode: await closed, output };
    } finally {
      clearTimeout(limit);
      signalGroup(child, 'SIGKILL');
    }
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) {
      process.kill(-pid, signal);
    }
  } catch {
    // The process group has already ended.
  }
}

async function script(file: string, text: string): Promise<void> {
  await writeFile(file, `#!/bin/bash\n${text}\n`);
  await chmod(file, 0o755);
}
