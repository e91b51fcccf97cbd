import { defineCommand } from '../define-command.ts';
import { CLUSTER_OPTIONS } from '../shared-options.ts';

export const notebookCommand = defineCommand({
  command: 'notebook [application]',
  describe: 'Run JupyterLab in a container, and open it in your browser through a tunnel',
  builder: (yargs) =>
    yargs
      .positional('application', { type: 'string', describe: 'ID of a running notebook to connect to' })
      .options({
        // The options for a new notebook have no defaults, because yargs would treat a default as if the user had typed it, and report a
        // conflict with `application`.
        conf: {
          type: 'string',
          describe: 'Job file from which the notebook takes its source, environment and resources',
          requiresArg: true,
          conflicts: 'application',
        },
        role: {
          type: 'string',
          describe: 'Role in the job file to use for the notebook [default: the first role]',
          requiresArg: true,
          conflicts: 'application',
        },
        set: {
          type: 'string',
          array: true,
          nargs: 1,
          describe: 'Override a value, e.g. roles.notebook.resources.memory=8g',
          conflicts: 'application',
        },
        idle: {
          type: 'string',
          describe: 'End a notebook that is idle for this long [default: 1h]',
          requiresArg: true,
          conflicts: 'application',
        },
        port: { type: 'string', describe: 'Port on this machine [default: the port on the node, if it is free]', requiresArg: true },
        local: { type: 'boolean', describe: 'Run the notebook on this machine, without Hadoop', conflicts: 'application' },
        detach: { type: 'boolean', describe: 'Exit as soon as the notebook is submitted', conflicts: 'application' },
        ...CLUSTER_OPTIONS,
      })
      .epilogue(
        "The job's Python environment must contain the jupyterlab package. Ctrl-C ends a notebook that this command has started. If the " +
          'terminal closes or the connection breaks, a notebook on a cluster continues; to connect again, run tony-ts notebook APPLICATION. ' +
          'A notebook is idle while it runs no cell and you change nothing in the browser.',
      ),
  handler: async ({ application, port, local = false, detach = false, ...args }) => {
    const { TonyError } = await import('../../../../platform/errors.ts');
    const { connectJob } = await import('../../../connections/connect-job.ts');
    const { howToConnect, runNotebook } = await import('../../../notebook/run-notebook.ts');
    const { submitNotebook } = await import('../../../notebook/submit-notebook.ts');
    const { parsePorts } = await import('../../../sessions/parse-ports.ts');
    const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const { durationOf } = await import('../shared-options.ts');
    const { idle = '1h', set = [], resourceManager, staging, ...rest } = args;
    const cluster = { ...(resourceManager !== undefined && { resourceManager }), ...(staging !== undefined && { staging }) };
    const localPort = port === undefined ? undefined : port === '0' ? 0 : parsePorts(port).port;
    const idleMs = await durationOf('--idle', idle);
    const stop = new AbortController();
    let received: NodeJS.Signals | null = null;
    void untilSignal().then((signal) => {
      received = signal;
      stop.abort(new TonyError('INTERRUPTED', 'Interrupted. The notebook is not running.'));
    });
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    const job =
      application === undefined
        ? await submitNotebook({ ...rest, set, local, idleMs }, { ...cluster, detach: local && detach }, say, stop.signal)
        : await connectJob(application, cluster);
    try {
      if (detach) {
        process.stdout.write(`${job.applicationId}\n`);
        say(howToConnect(job.applicationId));
        return;
      }
      // A local job ends when this process ends, unless it is detached.
      const keeps = (): boolean => application !== undefined || (!local && received !== 'SIGINT');
      const show = (url: string): void => void process.stdout.write(`${url}\n`);
      const state = await runNotebook(job, { localPort, keeps, signal: stop.signal, say, show });
      process.exitCode = state === 'ended' || keeps() ? 0 : INTERRUPTED;
    } finally {
      job.close();
    }
  },
});
