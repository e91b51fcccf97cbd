import { JOB_STATES, type JobState } from '../../../../conf/status/status.ts';
import { closing } from '../../../../platform/async/closing.ts';
import type { Terminal } from '../../../terminal/terminal.ts';
import { defineCommand, defineGroup, parsedText, wholeNumber } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, DRY_RUN_OPTION, durationText, JOB_ID, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const LOCAL_OPTION = {
  local: { type: 'boolean', default: false, excludes: CLUSTER_ONLY, describe: 'Jobs on this machine, submitted with --local' },
} as const;

const listCommand = defineCommand({
  command: 'list',
  describe: 'List jobs, newest first',
  options: {
    user: { type: 'string', describe: "This user's jobs, instead of yours" },
    'all-users': { alias: 'A', type: 'boolean', describe: "All users' jobs", excludes: 'user' },
    state: {
      choices: JOB_STATES,
      describe: 'Only jobs in this state',
      coerce: (state?: string) => state?.toLowerCase() as JobState | undefined,
    },
    name: { type: 'string', describe: 'Only jobs whose name contains this text' },
    limit: { ...wholeNumber(1, 100_000), default: 20, describe: 'Maximum number of entries' },
    ...LOCAL_OPTION,
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ user, allUsers = false, state, name, limit, output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { HistoryIndex } = await import('../../../history/history-index.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const { jobs, message } = await new HistoryIndex(store).list({ user: allUsers ? null : (user ?? store.user), state, name, limit });
      const { storedJob } = await import('../../../history/stored-job.ts');
      const table = async (terminal: Terminal) => {
        const { historyTable } = await import('../../../output/lines/history-lines.ts');
        return jobs.length === 0 ? ['No jobs found.'] : historyTable(jobs, terminal, allUsers);
      };
      await show(
        output,
        'Job',
        jobs.map((job) => storedJob(job)),
        table,
        message,
      );
    });
  },
});

const OWNER_OPTION = { user: { type: 'string', describe: 'User who submitted the job, if known' } } as const;

const showCommand = defineCommand({
  command: 'show <job>',
  describe: 'Show what happened during a job and why it failed',
  positionals: { job: JOB_ID },
  options: { ...OWNER_OPTION, ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ job, user, output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { findPlace } = await import('../../../records/find-place.ts');
    const { readRecord } = await import('../../../records/job-record.ts');
    const { storedStatus } = await import('../../../records/stored-status.ts');
    const { checkId } = await import('../../../connections/check-id.ts');
    const { jobInfo } = await import('../../../../conf/status/job-info.ts');
    await closing(await openHistoryStore({ ...options, local: checkId(job) === 'local' }), async (store) => {
      const place = await findPlace(store, job, user);
      const record = await readRecord(store.storage, place, true);
      const answer = record.final === null ? (await store.answers([place])).get(place.folder) : undefined;
      const status = storedStatus(record, answer ?? 'forgotten');
      const { entries } = record;
      const value = { ...jobInfo(status), places: { history: place.folder }, events: entries };
      await show(output, 'JobHistory', [value], async (terminal) => {
        const { historyDetails } = await import('../../../output/lines/history-lines.ts');
        return historyDetails({ folder: place.folder, status, entries }, terminal);
      });
    });
  },
});

const serveCommand = defineCommand({
  command: 'serve',
  describe: "Serve the jobs' pages, including TensorBoard, until you press Ctrl-C",
  options: {
    port: { ...wholeNumber(0, 65_535), default: 0, describe: 'Port; 0 selects a free port' },
    listen: { type: 'string', default: '127.0.0.1', describe: 'Address to listen on' },
    auth: {
      choices: ['token', 'simple', 'proxy'] as const,
      default: 'token' as const,
      describe:
        'token: visitors need the printed URL. simple: visitors enter their user name, which is not verified. proxy: a reverse proxy authenticates visitors',
    },
    'trusted-proxy': {
      type: 'string',
      array: true,
      describe: "Host of the reverse proxy, for --auth proxy. The server accepts requests only from this host's addresses",
    },
    'user-header': {
      type: 'string',
      describe: 'Header in which the reverse proxy sends the user name; default X-Remote-User',
    },
    ...LOCAL_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async (options) => {
    const { serveHistory } = await import('../../../history/serve.ts');
    const { serverLog } = await import('../serving.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const server = await serveHistory({ ...options, log: serverLog(), onProgress: (line) => process.stderr.write(`${line}\n`) });
    // Install the signal handlers before printing the URL, because another program may wait for this line and then send a signal.
    const ended = untilSignal();
    process.stdout.write(`history: ${server.url}\n`);
    await ended;
    await server.close();
  },
});

const pruneCommand = defineCommand({
  command: 'prune',
  describe: 'Remove old histories, including their summaries',
  options: {
    'older-than': {
      ...parsedText(durationText),
      describe: 'Minimum time since the last write, e.g. 30d [default: history.keep in the site file, or 90d]',
    },
    ...DRY_RUN_OPTION,
    'all-users': {
      alias: 'A',
      type: 'boolean',
      default: false,
      describe: "Include other users' histories, if you are allowed to remove them",
    },
    ...LOCAL_OPTION,
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ allUsers, olderThan, dryRun, output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { pruneHistory } = await import('../../../history/prune-history.ts');
    const { counted, formatBytes } = await import('../../../../conf/values/quantities.ts');
    const { shortTime } = await import('../../../terminal/clock.ts');
    const { reportPruned } = await import('../report-pruned.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const olderThanMs = olderThan ?? store.keepMs;
      await reportPruned(pruneHistory(store, { user: allUsers ? null : store.user, olderThanMs, dryRun, now: Date.now() }), {
        output,
        dryRun,
        value: ({ place: { jobId, user, folder }, bytes, writtenAt }) => {
          return { id: jobId, user, places: { history: folder }, bytes, writtenAt };
        },
        text: ({ place: { jobId, user }, bytes, writtenAt }) => {
          const day = shortTime(writtenAt).slice(0, 10);
          return `${jobId}${allUsers ? ` of ${user}` : ''} (${formatBytes(bytes)}, last written ${day})`;
        },
        count: (jobs) => counted(jobs, 'history', 'histories'),
      });
    });
  },
});

export const historyCommand = defineGroup(
  'history',
  'List, show, serve or prune job histories',
  [listCommand, showCommand, serveCommand, pruneCommand],
  listCommand,
);
