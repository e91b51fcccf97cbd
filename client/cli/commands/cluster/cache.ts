import { closing } from '../../../../platform/async/closing.ts';
import type { Terminal } from '../../../terminal/terminal.ts';
import { defineCommand, defineGroup, parsedText } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, DRY_RUN_OPTION, durationText, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const LOCAL_OPTION = {
  local: {
    type: 'boolean',
    default: false,
    excludes: CLUSTER_ONLY,
    describe: 'The cache on this machine, for jobs submitted with --local',
  },
} as const;

const DEFAULT_AGE_MS = 30 * 86_400_000;

const listCommand = defineCommand({
  command: 'list',
  describe: 'List the entries in your cache with their size and last use',
  options: { ...LOCAL_OPTION, ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { listCache } = await import('../../../cache/prune-cache.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const { entries, message } = await listCache(store, { now: Date.now() });
      const table = async (terminal: Terminal) => {
        const { cacheTable } = await import('../../../cache/cache-lines.ts');
        return cacheTable(entries, terminal);
      };
      await show(output, 'CacheEntry', entries, table, message);
    });
  },
});

const pruneCommand = defineCommand({
  command: 'prune',
  describe: 'Remove cache entries that no job uses or has recently used; a submission that needs a removed entry uploads it again',
  options: {
    'older-than': {
      ...parsedText(durationText),
      describe: 'Minimum time since the last write or use; the default is cache.maxAge in the site file, or 30d',
    },
    ...DRY_RUN_OPTION,
    ...LOCAL_OPTION,
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ olderThan, dryRun, output, ...options }) => {
    const { openHistoryStore } = await import('../../../history/open-store.ts');
    const { pruneCache } = await import('../../../cache/prune-cache.ts');
    const { entryCount, entryText } = await import('../../../cache/cache-lines.ts');
    const { reportPruned } = await import('../report-pruned.ts');
    await closing(await openHistoryStore(options), async (store) => {
      const olderThanMs = olderThan ?? store.cacheMaxAgeMs ?? DEFAULT_AGE_MS;
      if (!dryRun) {
        const { MOST_ENDED, removeEndedJobs } = await import('../../../cache/ended-jobs.ts');
        await removeEndedJobs(store, MOST_ENDED.prune);
      }
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

export const cacheCommand = defineGroup('cache', 'List or prune cached job files', [listCommand, pruneCommand], listCommand);
