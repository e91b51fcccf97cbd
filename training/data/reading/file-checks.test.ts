import { setImmediate as laterTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { TonyError } from '../../../platform/errors.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { FileChecks, openListed } from './file-checks.ts';

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(() => void process.off('unhandledRejection', note));

const FILE = { uri: 'file:///data/a', size: 1, modifiedAt: 0 };

/** A storage without files, in which the slow one of two requests takes several turns of the event loop. */
class EmptyStorage extends FileStorage {
  readonly #slow: 'stat' | 'open';

  constructor(slow: 'stat' | 'open') {
    super();
    this.#slow = slow;
  }

  override async stat(): Promise<null> {
    await this.#turns('stat');
    return null;
  }

  override async open(uri: string): Promise<never> {
    await this.#turns('open');
    throw new TonyError('NOT_FOUND', `${uri}: no such file or directory`);
  }

  async #turns(request: 'stat' | 'open'): Promise<void> {
    for (let turn = 0; request === this.#slow && turn < 3; turn++) {
      await laterTurn();
    }
  }
}

test.each(['stat', 'open'] as const)('a removed file is one error, although %s answers later', async (slow) => {
  const checks = new FileChecks({ comparesLocalTimes: true });
  const range = { offset: 0, length: 1 };
  await expect(openListed(new EmptyStorage(slow), FILE, range, checks)).rejects.toThrow(/has been removed since/);
  // Node.js reports a rejection without a handler after the turn in which it happens.
  for (let turn = 0; turn < 5; turn++) {
    await laterTurn();
  }
  expect(unhandled).toEqual([]);
});
