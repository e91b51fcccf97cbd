import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';
import { show } from './show.ts';

const LOCAL_OPTION = {
  local: { type: 'boolean', default: false, describe: "This machine's jobs, which ran with --local" },
} as const;
const STATES = ['SUCCEEDED', 'FAILED', 'KILLED', 'RUNNING', 'STARTING'] as const;

interface ListArguments extends ClusterArguments {
  readonly local: boolean;
  readonly user?: string | undefined;
  readonly all?: boolean | undefined;
  readonly state?: (typeof STATES)[number] | undefined;
  readonly name?: string | undefined;
  readonly limit: number;
  readonly output: OutputFormat;
}

const listCommand: CommandModule<object, ListArguments> = {
  command: ['list', '$0'],
  describe: 'List jobs, the newest first',
  builder: (yargs): Argv<ListArguments> =>
    yargs.options({
      user: { type: 'string', describe: "This user's jobs, instead of yours", requiresArg: true },
      all: { type: 'boolean', describe: "All users' jobs", conflicts: 'user' },
      state: {
        choices: STATES,
        describe: 'Only jobs in this state',
        requiresArg: true,
        coerce: (state?: string) => state?.toUpperCase() as never,
      },
      name: { type: 'string', describe: 'Only jobs with this in their name', requiresArg: true },
      limit: { type: 'number', default: 20, describe: 'At most so many', requiresArg: true },
      ...LOCAL_OPTION,
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ user, all = false, state, name, limit, output, ...options }) => {
    const { TonyError } = await import('../../conf/errors.ts');
    if (!(Number.isInteger(limit) && limit > 0 && limit <= 100_000)) {
      throw new TonyError('USAGE', '--limit wants a number of jobs, from 1 to 100000.');
    }
    const { openHistoryStore } = await import('../history/open-store.ts');
    const { HistoryIndex } = await import('../history/history-index.ts');
    const store = await openHistoryStore(options);
    try {
      const { jobs, message } = await new HistoryIndex(store).list({ user: all ? null : (user ?? store.user), state, name, limit });
      if (output !== 'table') {
        const { valueWriter } = await import('../value-output.ts');
        const write = await valueWriter(output);
        const { historySummary } = await import('../history/history-summary.ts');
        for (const job of jobs) {
          // Where it would be on a history server says nothing here.
          const { href: _href, ...summary } = historySummary(job);
          write(summary);
        }
        if (message !== '') write({ type: 'notice', message });
        return;
      }
      const { terminalOf } = await import('../terminal.ts');
      const { historyTable } = await import('../history/history-lines.ts');
      const terminal = terminalOf(process.stdout);
      if (jobs.length === 0) process.stdout.write('There are no such jobs.\n');
      else
        process.stdout.write(
          historyTable(jobs, terminal, all)
            .map((line) => `${line}\n`)
            .join(''),
        );
      if (message !== '') process.stderr.write(`${terminalOf(process.stderr).paint('yellow', message)}\n`);
    } finally {
      store.close();
    }
  },
};

interface ShowArguments extends ClusterArguments {
  readonly application: string;
  readonly user?: string | undefined;
  readonly output: OutputFormat;
}

const JOB_ID = {
  type: 'string',
  demandOption: true,
  describe: 'e.g. application_1795225023264_0001',
} as const;
const OWNER_OPTION = { user: { type: 'string', describe: 'Whose job it is, where that is known', requiresArg: true } } as const;

const showCommand: CommandModule<object, ShowArguments> = {
  command: 'show <application>',
  describe: 'Show how a job went, and why it failed',
  builder: (yargs): Argv<ShowArguments> =>
    yargs.positional('application', JOB_ID).options({ ...OWNER_OPTION, ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ application, user, output, ...options }) => {
    const { findPlace, openHistoryStore } = await import('../history/open-store.ts');
    const { readRecord } = await import('../history/job-record.ts');
    const { storedStatus } = await import('../history/stored-status.ts');
    const { checkId } = await import('../connect-job.ts');
    const store = await openHistoryStore({ ...options, local: checkId(application) === 'local' });
    try {
      const place = await findPlace(store, application, user);
      const record = await readRecord(store.storage, place, true);
      const answer = record.final === '' ? (await store.answers([application])).get(application) : undefined;
      const status = storedStatus(record, answer ?? 'forgotten');
      const { entries } = record;
      const value = { applicationId: application, history: place.folder, status, events: entries };
      await show(output, [value], async (terminal) => {
        const { historyDetails } = await import('../history/history-lines.ts');
        return historyDetails({ folder: place.folder, status, entries }, terminal);
      });
    } finally {
      store.close();
    }
  },
};

interface ServeArguments extends ClusterArguments {
  readonly local: boolean;
  readonly port: number;
  readonly listen: string;
  readonly auth: 'token' | 'simple';
}

const serveCommand: CommandModule<object, ServeArguments> = {
  command: 'serve',
  describe: "Serve the jobs' pages, TensorBoard included, until Ctrl-C",
  builder: (yargs): Argv<ServeArguments> =>
    yargs.options({
      port: { type: 'number', default: 0, describe: 'Port; 0 is any that is free', requiresArg: true },
      listen: { type: 'string', default: '127.0.0.1', describe: 'Address of this machine to listen on', requiresArg: true },
      auth: {
        choices: ['token', 'simple'] as const,
        default: 'token' as const,
        describe: 'token: for who has the printed URL. simple: for all; people give their name',
        requiresArg: true,
      },
      ...LOCAL_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async (options) => {
    const { checkPort } = await import('./serving.ts');
    checkPort(options.port);
    const { serveHistory } = await import('../history/serve.ts');
    const { serverLog } = await import('./serving.ts');
    const { untilSignal } = await import('../until-signal.ts');
    const server = await serveHistory({ ...options, log: serverLog(), onProgress: (line) => process.stderr.write(`${line}\n`) });
    // Whoever reads the line may end it at once.
    const ended = untilSignal();
    process.stdout.write(`history: ${server.url}\n`);
    await ended;
    await server.close();
  },
};

interface PruneArguments extends ClusterArguments {
  readonly local: boolean;
  readonly all: boolean;
  readonly olderThan?: string | undefined;
  readonly dryRun?: boolean | undefined;
  readonly output: OutputFormat;
}

const pruneCommand: CommandModule<object, PruneArguments> = {
  command: 'prune',
  describe: 'Remove old histories, with the summaries in them',
  builder: (yargs): Argv<PruneArguments> =>
    yargs.options({
      'older-than': { type: 'string', describe: 'Not written for so long, e.g. 30d [default: as the site says, 90d]', requiresArg: true },
      'dry-run': { type: 'boolean', default: false, describe: 'Only say what would go' },
      all: { type: 'boolean', default: false, describe: "All users' histories that you may remove" },
      ...LOCAL_OPTION,
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ all, olderThan, dryRun = false, output, ...options }) => {
    const { TonyError } = await import('../../conf/errors.ts');
    const { parseDuration } = await import('../../conf/units.ts');
    const { openHistoryStore } = await import('../history/open-store.ts');
    const { pruneHistory } = await import('../history/prune-history.ts');
    const { formatBytes } = await import('../../conf/quantities.ts');
    const given = olderThan === undefined ? undefined : parseDuration(olderThan);
    if (olderThan !== undefined && given === undefined) {
      throw new TonyError('USAGE', '--older-than wants a duration such as 12h or 30d.');
    }
    const { valueWriter } = await import('../value-output.ts');
    const write = output === 'table' ? null : await valueWriter(output);
    const store = await openHistoryStore(options);
    let [jobs, bytes, failures] = [0, 0, 0];
    try {
      const olderThanMs = given ?? store.keepMs;
      for await (const pruned of pruneHistory(store, { user: all ? null : store.user, olderThanMs, dryRun, now: Date.now() })) {
        const { place, failure } = pruned;
        if (failure === '') {
          jobs++;
          bytes += pruned.bytes;
        } else failures++;
        const { applicationId, user } = place;
        if (write !== null) {
          const line = {
            applicationId,
            user,
            history: place.folder,
            bytes: pruned.bytes,
            lastWritten: pruned.lastWritten,
            removed: !dryRun && failure === '',
            failure,
          };
          write(line);
        } else {
          const what = failure === '' ? (dryRun ? 'would remove' : 'removed') : 'cannot remove';
          const day = new Date(pruned.lastWritten).toISOString().slice(0, 10);
          const whose = all ? ` of ${user}` : '';
          process.stdout.write(
            `${what} ${applicationId}${whose} (${formatBytes(pruned.bytes)}, last written ${day})${failure === '' ? '' : `: ${failure}`}\n`,
          );
        }
      }
    } finally {
      store.close();
    }
    if (output === 'table') {
      const what = jobs === 1 ? '1 history' : `${jobs} histories`;
      process.stdout.write(`${what}, ${formatBytes(bytes)}${dryRun ? ', would go' : ' removed'}\n`);
    }
    if (failures > 0) process.exitCode = 1;
  },
};

export const historyCommand: CommandModule = {
  command: 'history',
  describe: 'Jobs that have ended: list, show, serve, prune',
  builder: (yargs) => yargs.command(listCommand).command(showCommand).command(serveCommand).command(pruneCommand),
  handler: () => {},
};
