import { expect, test } from 'vitest';
import type { Channel } from '../../../../contract/connections/channel.ts';
import { pushInto } from '../../../../contract/connections/testing/push-into.ts';
import { type AgentRequest, isBelow, MessageReader, sendMessage } from './messages.ts';

function encoded(message: AgentRequest): Buffer {
  const pieces: Uint8Array[] = [];
  sendMessage({ write: (bytes) => pieces.push(bytes) } as Pick<Channel, 'write'> as Channel, message);
  return Buffer.concat(pieces);
}

function read(bytes: Buffer, pieceBytes: number): { readonly messages: AgentRequest[]; readonly invalid: string[] } {
  const messages: AgentRequest[] = [];
  const invalid: string[] = [];
  const reader = new MessageReader<AgentRequest>(
    (message) => messages.push(message),
    (reason) => invalid.push(reason),
  );
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    pushInto(reader, bytes.subarray(at, at + pieceBytes));
  }
  return { messages, invalid };
}

test.each([1, 3, 1000])('messages that arrive in pieces of %s bytes are reassembled', (pieceBytes) => {
  const sent: AgentRequest[] = [{ type: 'join' }, { type: 'run', command: 'orted "é"', folder: '' }, { type: 'end' }];
  expect(read(Buffer.concat(sent.map(encoded)), pieceBytes)).toEqual({ messages: sent, invalid: [] });
});

test('rejects messages that are too long, empty or not JSON', () => {
  expect(read(Buffer.from([0x7f, 0xff, 0xff, 0xff]), 4).invalid).toEqual(['a message of 2147483647 bytes']);
  expect(read(Buffer.alloc(4), 4).invalid).toEqual(['a message of 0 bytes']);
  expect(read(Buffer.from([0, 0, 0, 1, 0x7b]), 5).invalid).toEqual(['a message that is not JSON']);
});

test.each(['/a', '..', 'a/../../b', 5, undefined])('a request cannot name a folder outside the task: %s', (folder) => {
  expect(isBelow(folder)).toBe(false);
});
