import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { ConnectionLimit } from './connection-limit.ts';

class Connection extends EventEmitter {
  readonly remoteAddress = '10.0.0.9';
  readonly remotePort: number;
  destroyed = false;

  constructor(remotePort: number) {
    super();
    this.remotePort = remotePort;
  }

  destroy(): void {
    this.destroyed = true;
  }

  get socket(): Socket {
    return this as unknown as Socket;
  }
}

test('a connection keeps its deadline and its slot when an older connection from the same port closes later', () => {
  vi.useFakeTimers();
  try {
    const limit = new ConnectionLimit({ mostUnproven: 1, deadlineMs: 1000 });
    const [first, second, third] = [new Connection(4000), new Connection(4000), new Connection(4001)];
    limit.admit(first.socket);
    limit.admit(second.socket);
    first.emit('close');
    limit.admit(third.socket);
    expect(second.destroyed).toBe(true);
    third.emit('close');

    const late = new Connection(4002);
    const again = new Connection(4002);
    limit.admit(late.socket);
    limit.admit(again.socket);
    late.emit('close');
    vi.advanceTimersByTime(1000);
    expect(again.destroyed).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});
