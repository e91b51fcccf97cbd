import { expect, it } from 'vitest';
import { loopbackOwner } from './rendezvous-relay.ts';

// Recorded from /proc/net/tcp on an x86-64 machine. The fourth line is the server's side of the connection in the third.
const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1267 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3054 1 0000000000000000 100 0 0 10 0
   1: 0100007F:A2B8 0100007F:1267 01 00000000:00000000 00:00000000 00000000  1000        0 81730 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:1267 0100007F:A2B8 01 00000000:00000000 00:00000000 00000000     0        0 81731 1 0000000000000000 20 4 30 10 -1
   3: 0500000A:A2B9 0500000A:1267 01 00000000:00000000 00:00000000 00000000  1001        0 81732 1 0000000000000000 20 4 30 10 -1
`;

it('returns the user of a client that is connected to 127.0.0.1', () => {
  expect(loopbackOwner(TABLE, 0xa2b8, 0x1267)).toBe(1000);
  expect(loopbackOwner(TABLE, 0x1267, 0xa2b8)).toBe(0);
  expect(loopbackOwner(TABLE, 0xa2b9, 0x1267)).toBeNull();
  expect(loopbackOwner('', 0xa2b8, 0x1267)).toBeNull();
});
