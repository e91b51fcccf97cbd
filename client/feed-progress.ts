import type { FeedProgress } from './feed.ts';
import { clip, terminalOf } from './terminal.ts';

/** What a person sees of a feed: a line in place on a terminal, otherwise a line when something begins or stops. */
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
      if (news !== last && progress.state !== 'full') stream.write(`${text}\n`);
      if (progress.state !== 'full') last = news;
    },
    end: () => {
      if (terminal.live) stream.write('\n');
    },
  };
}

export function describeProgress({ state, reason, written, taken, readers }: FeedProgress): string {
  const counts = `${written} records written, ${taken} taken`;
  switch (state) {
    case 'waiting':
      return `waiting: ${reason} (${counts})`;
    case 'connected':
      return reason === '' ? `feeding ${readers} ${readers === 1 ? 'worker' : 'workers'}: ${counts}` : `waiting: ${reason} (${counts})`;
    case 'full':
      return `the job has enough for now: ${counts}`;
    case 'over':
      return `done: ${counts}`;
  }
}
