import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openEarlyListener, takeHeld } from './listener.ts';

test('an early connection that its peer resets does not end the process', async () => {
  const { server, port } = await openEarlyListener('127.0.0.1');
  onTestFinished(() => void server.close());
  const peer = connect(port, '127.0.0.1');
  const [[early]] = await Promise.all([once(server, 'connection'), once(peer, 'connect')]);
  const closed = new Promise((resolve) => early.once('close', resolve));
  peer.resetAndDestroy();
  await closed;
  expect(takeHeld(server)).toEqual([early]);
});
