import type { Argv, CommandModule } from 'yargs';
import { CLUSTER_OPTIONS, type ClusterArguments } from './shared-options.ts';

interface NotebookArguments extends ClusterArguments {
  readonly application?: string | undefined;
  readonly conf?: string | undefined;
  readonly role?: string | undefined;
  readonly set: readonly string[];
  readonly idle: string;
  readonly port?: string | undefined;
  readonly local: boolean;
  readonly detach: boolean;
}

export const notebookCommand: CommandModule<object, NotebookArguments> = {
  command: 'notebook [application]',
  describe: 'Run JupyterLab in a container, and open it in your browser through a tunnel',
  builder: (yargs): Argv<NotebookArguments> =>
    yargs
      .positional('application', { type: 'string', describe: 'A notebook that is already running: reconnect to it' })
      .options({
        conf: { type: 'string', describe: 'Job file whose source, environment and resources the notebook gets', requiresArg: true },
        role: { type: 'string', describe: 'Role of the job file [default: the first one]', requiresArg: true },
        set: {
          type: 'string',
          array: true,
          nargs: 1,
          default: [],
          describe: 'Override a value, e.g. roles.notebook.resources.memory=8g',
        },
        idle: { type: 'string', default: '1h', describe: 'End a notebook that is idle for this long', requiresArg: true },
        port: { type: 'string', describe: 'Port on this machine [default: the port on the node, if it is free]', requiresArg: true },
        local: { type: 'boolean', default: false, describe: 'Run the notebook on this machine, without Hadoop' },
        detach: { type: 'boolean', default: false, describe: 'Leave the notebook running after Ctrl-C' },
        ...CLUSTER_OPTIONS,
      })
      .conflicts('application', ['conf', 'role', 'local'])
      .epilogue(
        'The Python of the job must contain the package jupyterlab. Ctrl-C ends the notebook, except with --detach and for a notebook to which ' +
          'you have reconnected. An idle notebook has no running cell and no activity in the browser.',
      ),
  handler: async ({ application, port, detach, ...args }) => {
    const { connectJob } = await import('../../connections/connect-job.ts');
    const { runNotebook } = await import('../../notebook/run-notebook.ts');
    const { submitNotebook } = await import('../../notebook/submit-notebook.ts');
    const { parsePorts } = await import('../../sessions/parse-ports.ts');
    const { INTERRUPTED } = await import('../../terminal/interrupts.ts');
    const { untilSignal } = await import('../../terminal/until-signal.ts');
    const { durationOf } = await import('./shared-options.ts');
    const { idle, resourceManager, staging, ...rest } = args;
    const cluster = { ...(resourceManager !== undefined && { resourceManager }), ...(staging !== undefined && { staging }) };
    const localPort = port === undefined ? undefined : port === '0' ? 0 : parsePorts(port).port;
    const idleMs = await durationOf('--idle', idle);
    const stop = new AbortController();
    void untilSignal().then(() => stop.abort());
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    const job =
      application === undefined
        ? await submitNotebook({ ...rest, idleMs }, { ...cluster, detach: rest.local && detach }, say, stop.signal)
        : await connectJob(application, cluster);
    try {
      const keep = detach || application !== undefined;
      const show = (url: string): void => void process.stdout.write(`${url}\n`);
      const state = await runNotebook(job, { localPort, keep, signal: stop.signal, say, show });
      process.exitCode = state === 'interrupted' ? (keep ? 0 : INTERRUPTED) : 0;
    } finally {
      job.close();
    }
  },
};
