import type { CommandModule } from 'yargs';
import { closing } from '../../../../platform/async/closing.ts';
import type { Terminal } from '../../../terminal/terminal.ts';
import { defineCommand } from '../define-command.ts';
import { CLUSTER_OPTIONS, DRY_RUN_OPTION, durationOf, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const LOCAL_OPTION = {
  local: { type: 'boolean', default: false, describe: 'The cache on this machine, for jobs submitted with --local' },
} as const;

const DEFAULT_AGE_MS = 30 * 86_400_000;

const listCommand = defineCommand({
  command: ['list', '$0'],
  describe: 'List the entries in your cache with their size and last use',
  builder: (yargs) => yargs.options({ ...LOCAL_OPTION, ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { listCache } = await import('../../../cache/prune-cache.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const { entries, message } = await listCache(store, { now: Date.now() });
      const table = async (terminal: Terminal) => {
        const { cacheTable } = await import('../../../cache/cache-lines.ts');
        return cacheTable(entries, terminal);
      };
      await show(output, entries, table, message);
    });
  },
});

const pruneCommand = defineCommand({
  command: 'prune',
  describe: 'Remove cache entries that no job uses or has recently used; a submission that needs a removed entry uploads it again',
  builder: (yargs) =>
    yargs.options({
      'older-than': {
        type: 'string',
        describe: 'Minimum time since the last write or use; the default is cache.maxAge in the site file, or 30d',
        requiresArg: true,
      },
      ...DRY_RUN_OPTION,
      ...LOCAL_OPTION,
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ olderThan, dryRun, output, ...options }) => {
    const given = olderThan === undefined ? undefined : await durationOf('--older-than', olderThan);
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { pruneCache } = await import('../../../cache/prune-cache.ts');
    const { entryCount, entryText } = await import('../../../cache/cache-lines.ts');
    const { reportPruned } = await import('../report-pruned.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const olderThanMs = given ?? store.cacheMaxAgeMs ?? DEFAULT_AGE_MS;
      await reportPruned(pruneCache(store, { olderThanMs, dryRun, now: Date.now() }), {
        output,
        dryRun,
        value: ({ entry }) => entry,
        text: ({ entry }) => entryText(entry),
        count: entryCount,
      });
    });
  },
});

export const cacheCommand: CommandModule = {
  command: 'cache',
  describe: 'List or prune cached job files',
  builder: (yargs) => yargs.command(listCommand).command(pruneCommand),
  handler: () => {},
};
