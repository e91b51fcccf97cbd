import type { ReadStream, WriteStream } from 'node:tty';
import { pause } from '../../platform/async/backoff.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { OutageTolerance } from '../cluster/outage-tolerance.ts';
import { FullScreen } from '../terminal/full-screen.ts';
import { INTERRUPTED } from '../terminal/interrupts.ts';
import type { FrameNotes, TopFrame } from './top-frame.ts';
import { afterKey, FIRST_VIEW, type TopView } from './top-view.ts';

export interface Watched<T> {
  readonly look: () => Promise<T>;
  readonly isOver: (seen: T) => boolean;
  readonly frame: (seen: T, view: TopView, notes: FrameNotes) => TopFrame;
  readonly orders: number;
}

export interface WatchOptions {
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly intervalMs: number;
}

/** Result of `watch`. `last` is the final observation, or null if the user quit. */
export interface WatchEnd<T> {
  readonly last: T | null;
  readonly exitCode: number;
}

class Left extends Error {
  readonly exitCode: number;
  constructor(exitCode: number) {
    super('left');
    this.exitCode = exitCode;
  }
}

/** Redraws the screen with each observation until an observation is final or the user quits. Then restores the terminal. */
export async function watch<T>(watched: Watched<T>, { input, output, intervalMs }: WatchOptions): Promise<WatchEnd<T>> {
  const away = new AbortController();
  const { signal } = away;
  const outage = new OutageTolerance();
  let view = FIRST_VIEW;
  let notice = '';
  let seen: { readonly value: T } | null = null;
  const draw = (): void => {
    if (seen === null) {
      return;
    }
    const frame = watched.frame(seen.value, view, { notice, intervalMs });
    view = frame.view;
    screen.draw(frame.lines);
  };
  const typed = (key: string): void => {
    const next = afterKey(view, key, watched.orders);
    if (next === 'quit') {
      away.abort(new Left(0));
    } else {
      view = next;
      draw();
    }
  };
  const interrupted = (): void => away.abort(new Left(INTERRUPTED));
  for (const name of ENDING) {
    process.on(name, interrupted);
  }
  const screen = new FullScreen({ input, output, onKey: typed, onResize: draw });
  try {
    screen.draw(['loading ...']);
    for (;;) {
      try {
        seen = { value: await untilAborted(watched.look(), signal) };
        outage.answered();
        notice = '';
      } catch (error) {
        if (signal.aborted) {
          throw signal.reason;
        }
        notice = outage.missed(error) ?? notice;
      }
      draw();
      if (seen !== null && watched.isOver(seen.value)) {
        return { last: seen.value, exitCode: 0 };
      }
      await pause(intervalMs, signal);
      signal.throwIfAborted();
    }
  } catch (error) {
    if (error instanceof Left) {
      return { last: null, exitCode: error.exitCode };
    }
    throw error;
  } finally {
    screen.close();
    for (const name of ENDING) {
      process.off(name, interrupted);
    }
  }
}

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
