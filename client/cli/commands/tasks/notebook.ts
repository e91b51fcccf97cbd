import { parsePorts } from '../../../sessions/parse-ports.ts';
import { defineCommand, parsedText } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, durationText, JOB, JOB_FILE_OPTION, SET_OPTION } from '../shared-options.ts';

const IDLE_MS = 3_600_000;

function localPortText(text: string): number {
  return text === '0' ? 0 : parsePorts(text).port;
}

export const notebookCommand = defineCommand({
  command: 'notebook [job]',
  describe: 'Run JupyterLab in a container, and open it in your browser through a tunnel',
  positionals: { job: { ...JOB, demandOption: false, describe: 'ID of a running notebook to connect to' } },
  options: {
    conf: {
      ...JOB_FILE_OPTION,
      describe: 'Job file from which the notebook takes its source, environment and resources',
      excludes: 'job',
    },
    role: {
      type: 'string',
      describe: 'Role in the job file to use for the notebook [default: the first role]',
      excludes: 'job',
      needs: 'conf',
    },
    set: {
      ...SET_OPTION,
      describe: 'Override a value, e.g. roles.notebook.resources.memory=8g',
      excludes: 'job',
    },
    idle: {
      ...parsedText(durationText),
      describe: 'End a notebook that is idle for this long [default: 1h]',
      excludes: 'job',
    },
    port: { ...parsedText(localPortText), describe: 'Port on this machine [default: the port on the node, if it is free]' },
    local: {
      type: 'boolean',
      describe: 'Run the notebook on this machine, without Hadoop',
      excludes: ['job', ...CLUSTER_ONLY],
    },
    detach: { type: 'boolean', alias: 'd', describe: 'Exit as soon as the notebook is submitted', excludes: 'job' },
    ...CLUSTER_OPTIONS,
  },
  epilogue:
    "The job's Python environment must contain the jupyterlab package. Ctrl-C ends a notebook that this command has started. If the " +
    'terminal closes or the connection breaks, a notebook on a cluster continues; to connect again, run tony-ts notebook APPLICATION. ' +
    'A notebook is idle while it runs no cell and you change nothing in the browser.',
  handler: async ({ job: running, port, local = false, detach = false, ...args }) => {
    const { TonyError } = await import('../../../../platform/errors.ts');
    const { connectNamed } = await import('../job-named.ts');
    const { howToConnect, runNotebook } = await import('../../../notebook/run-notebook.ts');
    const { submitNotebook } = await import('../../../notebook/submit-notebook.ts');
    const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const { idle = IDLE_MS, set = [], resourceManager, staging, ...rest } = args;
    const cluster = { ...(resourceManager !== undefined && { resourceManager }), ...(staging !== undefined && { staging }) };
    const stop = new AbortController();
    let received: NodeJS.Signals | null = null;
    void untilSignal().then((signal) => {
      received = signal;
      stop.abort(new TonyError('INTERRUPTED', 'Interrupted. The notebook is not running.'));
    });
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    const job =
      running === undefined
        ? await submitNotebook({ ...rest, set, local, idleMs: idle }, { ...cluster, detach: local && detach }, say, stop.signal)
        : await connectNamed(running, cluster);
    try {
      if (detach) {
        process.stdout.write(`${job.id}\n`);
        say(howToConnect(job.id));
        return;
      }
      // A local job ends when this process ends, unless it is detached.
      const keeps = (): boolean => running !== undefined || (!local && received !== 'SIGINT');
      const show = (url: string): void => void process.stdout.write(`${url}\n`);
      const state = await runNotebook(job, { localPort: port, keeps, signal: stop.signal, say, show });
      process.exitCode = state === 'ended' || keeps() ? 0 : INTERRUPTED;
    } finally {
      job.close();
    }
  },
});
