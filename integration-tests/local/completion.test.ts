import { spawnSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { COMMAND, type CommandOptions, environment, runCommand } from '../command.ts';
import { temporaryFolder, until } from '../harness.ts';
import { openTerminal } from '../pseudo-terminal.ts';
import { PROGRAM_HANGS_MS } from '../until.ts';

/** Completions in real shells through the shells' own completion functions: always in bash, and in zsh and fish if they are installed. */

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const missing = new Set<Shell>(SHELLS.filter((shell) => shell !== 'bash' && spawnSync(shell, ['--version']).error !== undefined));
for (const shell of missing) {
  console.warn(`completion is not tested in ${shell}, which is not installed`);
}

const installed = SHELLS.filter((shell) => !missing.has(shell));

interface Home {
  readonly env: NonNullable<CommandOptions['env']>;
  readonly folder: string;
}

async function home(): Promise<Home> {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'bin'));
  await symlink(COMMAND, path.join(folder, 'bin', 'tony-ts'));
  for (const shell of installed) {
    const { stdout, exitCode } = await runCommand(['completion', shell]);
    expect(exitCode).toBe(0);
    await writeFile(path.join(folder, `tony-ts.${shell}`), stdout);
  }
  const env = { HOME: folder, PATH: `${path.join(folder, 'bin')}:${process.env.PATH}`, HADOOP_CONF_DIR: undefined, HADOOP_HOME: undefined };
  return { env, folder };
}

/** Returns the completions that the shell offers at the end of `line`, without descriptions. */
function offered(shell: Shell, line: string, { env, folder }: Home, cwd = folder): string[] {
  const { stdout, stderr, status } = spawnSync(shell, argumentsOf(shell, line, folder), {
    env: environment(env),
    cwd,
    encoding: 'utf8',
    timeout: PROGRAM_HANGS_MS,
  });
  expect({ shell, stderr, status }).toEqual({ shell, stderr: '', status: 0 });
  // Completions are in display order, except in zsh, which groups entries with the same description.
  const values = stdout.split('\n').filter((each) => each !== '');
  return shell === 'zsh' ? values.sort() : values;
}

function argumentsOf(shell: Shell, line: string, folder: string): string[] {
  const script = path.join(folder, `tony-ts.${shell}`);
  switch (shell) {
    case 'bash':
      return [
        '--norc',
        '--noprofile',
        '-c',
        `source "$1"; line=$2
         COMP_LINE=$line COMP_POINT=\${#line} COMP_TYPE=9
         mapfile -t COMP_WORDS < <(grep -oE '[:=]+|[^ :=]+' <<< "$line")
         [[ "$line" == *' ' ]] && COMP_WORDS+=('')
         COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
         compopt() { :; }
         _tony_ts; printf '%s\\n' "\${COMPREPLY[@]}"`,
        'bash',
        script,
        line,
      ];
    case 'fish':
      return ['--no-config', '-c', `source ${script}; complete -C '${line}' | string replace -r '\\t.*' ''; true`];
    case 'zsh':
      // Completes in an inner zsh, as in an interactive session. `compadd` prints its arguments.
      return [
        '-f',
        '-c',
        `zmodload zsh/zpty
         zpty inner zsh -f -i
         inner() { zpty -w inner "$1"; }
         inner "PROMPT=; unsetopt zle_bracketed_paste; stty columns 300; LISTMAX=100000; autoload -Uz compinit; compinit -u -D; source ${script}"
         inner 'compadd() {
           local -a given; local i
           [[ "$*" == *"-O "* || "$*" == *"-A "* || "$*" == *"-D "* ]] && { builtin compadd "$@"; return; }
           builtin compadd -O given "$@"; for i in "\${given[@]}"; do print -r -- "offered:$i" >> ${folder}/offered; done; builtin compadd "$@" }'
         inner 'done-complete() { print ended >> ${folder}/offered }; zle -N done-complete; bindkey "^X" done-complete; bindkey "^I" complete-word'
         sleep 0.3
         rm -f ${folder}/offered; : > ${folder}/offered
         zpty -w -n inner $'${line}\\t\\x18'
         for i in {1..1200}; do grep -q ended ${folder}/offered && break; sleep 0.05; zpty -r -t inner junk; done
         sed -n 's/^offered://p' ${folder}/offered
         zpty -d inner`,
      ];
  }
}

describe.each(SHELLS.map((shell) => [shell] as const))('%s', (shell) => {
  test.skipIf(missing.has(shell))('completes commands, options, choices and files', async () => {
    const at = await home();
    await writeFile(path.join(at.folder, 'job.yaml'), '');
    expect(offered(shell, 'tony-ts su', at)).toEqual(['submit']);
    expect(offered(shell, 'tony-ts history ', at)).toEqual(expect.arrayContaining(['list', 'show', 'serve', 'prune']));
    expect(offered(shell, 'tony-ts submit --loc', at)).toEqual(['--local']);
    expect(offered(shell, 'tony-ts list --output ', at)).toEqual(shell === 'zsh' ? ['json', 'table', 'yaml'] : ['table', 'json', 'yaml']);
    expect(offered(shell, 'tony-ts list --output=j', at)).toEqual([shell === 'bash' ? 'json' : '--output=json']);
    expect(offered(shell, 'tony-ts submit --conf jo', at)).toEqual(['job.yaml']);
    expect(offered(shell, 'tony-ts explain RM_U', at)).toEqual(['RM_UNREACHABLE']);
    expect(offered(shell, 'tony-ts explain roles.worker.inst', at)).toEqual(['roles.worker.instances']);
  });
});

describe('completion of jobs and tasks', () => {
  test.each(installed)('%s', async (shell) => {
    const local = await home();
    await writeFile(
      path.join(local.folder, 'job.yaml'),
      'name: hello\nframework: none\nruntime: system\ncommand: "true"\nroles: {worker: {instances: 2}, evaluator: {}}\n',
    );
    const { stdout } = await runCommand(['submit', '--local', '--conf', path.join(local.folder, 'job.yaml')], { env: local.env });
    const ended = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
    expect(offered(shell, 'tony-ts logs ', local)).toEqual([ended]);
    expect(offered(shell, 'tony-ts kill ', local)).toEqual([]);
    expect(offered(shell, `tony-ts logs ${ended} e`, local)).toEqual(['evaluator', 'evaluator:0']);
    const after = shell === 'bash' ? '' : 'worker:';
    expect(offered(shell, `tony-ts logs ${ended} worker:`, local)).toEqual([`${after}0`, `${after}1`]);
    expect(offered(shell, `tony-ts logs -f --tail 5 ${ended} worker:1`, local)).toEqual([`${after}1`]);
  });
});

test('TAB completes words in an interactive bash', async () => {
  const at = await home();
  const terminal = openTerminal(['bash', '--norc', '--noprofile', '-i'], { columns: 100, env: at.env, cwd: at.folder });
  await terminal.sees(/[#$] /);
  terminal.type(`source ${at.folder}/tony-ts.bash\n`);
  terminal.type('tony-ts explain RM_UN\t');
  await terminal.sees(/[#$] tony-ts explain RM_UNREACHABLE\s*$/);
  terminal.type('\x15tony-ts status --output=y\t');
  await terminal.sees(/--output=yaml/);
  terminal.type('\x15tony-ts st');
  terminal.type('\t\n');
  await terminal.sees(/tony-ts status requires a job ID/);
  terminal.type('tony-ts history \t\t');
  await terminal.sees(/prune {2}\(.+\)/);
});

describe('completion without a reachable cluster', () => {
  test('offers local jobs without an error when the cluster refuses connections or never responds', async () => {
    const at = await home();
    await writeFile(
      path.join(at.folder, 'job.yaml'),
      'name: hello\nframework: none\nruntime: system\ncommand: "true"\nroles: {worker: {}}\n',
    );
    const { stdout } = await runCommand(['submit', '--local', '--conf', path.join(at.folder, 'job.yaml')], { env: at.env });
    const local = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
    // The server keeps connections open and never responds. A command that waits for a response would hang.
    const server = createServer(() => undefined).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    const port = await until(() => (server.address() as { port: number } | null)?.port, { describe: 'a port' });
    for (const address of [`127.0.0.1:${port}`, '127.0.0.1:1']) {
      const conf = path.join(at.folder, address.replace(':', '-'));
      await mkdir(conf);
      const property = (name: string, value: string): string => `<property><name>${name}</name><value>${value}</value></property>`;
      await writeFile(path.join(conf, 'core-site.xml'), `<configuration>${property('fs.defaultFS', `hdfs://${address}`)}</configuration>`);
      await writeFile(
        path.join(conf, 'yarn-site.xml'),
        `<configuration>${property('yarn.resourcemanager.webapp.address', address)}</configuration>`,
      );
      const result = await runCommand(['completion', '--words', 'logs', ''], { env: { ...at.env, HADOOP_CONF_DIR: conf } });
      expect(result).toMatchObject({ exitCode: 0, stdout: `words\n${local}\thello, succeeded\n`, stderr: '' });
    }
  });
});
