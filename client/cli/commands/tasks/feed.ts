import { checkFeedName, FEED_FORMATS } from '../../../feed/feed-name.ts';
import { checkedText, defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';

export const feedCommand = defineCommand({
  command: 'feed <job> <feed>',
  describe: 'Send records from standard input to a feed of a running job',
  positionals: {
    job: JOB,
    feed: {
      type: 'string',
      demandOption: true,
      describe: 'Name of the feed in the program: data.fromFeed(name)',
      parse: checkFeedName,
    },
  },
  options: {
    format: {
      choices: FEED_FORMATS,
      default: 'lines' as const,
      describe: 'Format of the input: one record per line, a TFRecord stream, or frames, as the Python library writes them',
    },
    producer: {
      ...checkedText(checkFeedName),
      describe: 'Name of this producer; to continue after a producer has crashed, pass its name',
    },
    'skip-received': {
      type: 'boolean',
      describe: 'Skip the records at the beginning of the input that the job has already received from this producer',
      needs: 'producer',
    },
    doors: {
      type: 'boolean',
      describe:
        'Instead of sending records, wait until a task reads the feed, and print how a program sends partitions directly to the tasks (with --output json, for the Python module tony.spark). The output contains a token: do not share it',
    },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ job, feed, format, producer, skipReceived, doors, output, ...cluster }) => {
    const { openFeed } = await import('../../../feed/feed.ts');
    const { recordsOf } = await import('../../../feed/feed-input.ts');
    const { progressLine } = await import('../../../feed/feed-progress.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const { TonyError } = await import('../../../../platform/errors.ts');
    const line = progressLine(process.stderr);
    const stop = new AbortController();
    const { jobId } = await import('../job-named.ts');
    const id = await jobId(job, cluster);
    if (doors === true) {
      const { findFeedDoors } = await import('../../../feed/feed-doors.ts');
      const { show } = await import('../show.ts');
      void untilSignal().then(() => stop.abort(new TonyError('INTERRUPTED', 'interrupted')));
      const found = await findFeedDoors(id, cluster, stop.signal);
      // A terminal shows the addresses only, because its contents are often copied.
      await show(output, 'FeedDoors', [found], () => found.doors.map(({ host, port }) => `${host}:${port}`));
      return;
    }
    const writer = await openFeed(id, feed, {
      ...cluster,
      ...(producer === undefined ? {} : { producer }),
      signal: stop.signal,
      onProgress: line.show,
    });
    void untilSignal().then(() =>
      stop.abort(
        new TonyError(
          'INTERRUPTED',
          `Interrupted before the end of feed ${feed}: the job is still waiting for records from this producer.`,
          {
            hint: `To continue, run tony-ts feed ${id} ${feed} --producer ${writer.producer}, and add --skip-received to send the same input again. To end the feed, run it with empty input.`,
          },
        ),
      ),
    );
    try {
      let toSkip = skipReceived === true ? await writer.received() : 0;
      for await (const record of recordsOf(process.stdin, format)) {
        if (toSkip > 0) {
          toSkip--;
          continue;
        }
        await writer.write(record);
      }
      await writer.end();
    } finally {
      line.end();
      process.stdin.destroy();
    }
  },
});
