import { counted } from '../../conf/values/quantities.ts';
import { clip, harmless, terminalOf } from '../terminal/terminal.ts';
import type { FeedProgress } from './feed.ts';

/** Shows a feed's progress. On a terminal, updates a single line. Otherwise, writes a line whenever the state changes. */
export function progressLine(stream: NodeJS.WriteStream): { show(progress: FeedProgress): void; end(): void } {
  const terminal = terminalOf(stream);
  let last = '';
  return {
    show: (progress) => {
      const text = describeProgress(progress);
      if (terminal.live) {
        stream.write(`\r\x1b[K${clip(text, terminal.columns - 1)}`);
        return;
      }
      const news = `${progress.state} ${progress.reason}`;
      if (news !== last && progress.state !== 'full') {
        stream.write(`${text}\n`);
      }
      if (progress.state !== 'full') {
        last = news;
      }
    },
    end: () => {
      if (terminal.live) {
        stream.write('\n');
      }
    },
  };
}

/** Describes the progress in one line. Removes control characters from the reason, because the job may belong to another user. */
export function describeProgress({ state, reason: text, written, taken, receivedBefore, readers }: FeedProgress): string {
  const reason = harmless(text);
  const earlier = receivedBefore === 0 ? '' : `, ${receivedBefore} received before this process`;
  const counts = `${written} records written, ${taken} received${earlier}`;
  switch (state) {
    case 'waiting':
      return `waiting: ${reason} (${counts})`;
    case 'connected':
      return reason === '' ? `feeding ${counted(readers, 'worker')}: ${counts}` : `waiting: ${reason} (${counts})`;
    case 'full':
      return `the job accepts no more records at the moment: ${counts}`;
    case 'over':
      return `done: ${counts}`;
  }
}
