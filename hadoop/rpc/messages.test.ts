import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeMessage, encodeDelimited, splitDelimited } from './messages.ts';

test('decoding keeps absent fields absent, including an enum that has no value 0', () => {
  // Field 2, response_id: 3.
  const answer = decodeMessage('AllocateResponseProto', Buffer.from([0x10, 3]));
  expect(answer).not.toHaveProperty('a_m_command');
  expect(answer).toMatchObject({ response_id: 3, allocated_containers: [] });
});

test('encoding writes explicit default values: an empty protocol, operation 0', () => {
  const auth = encodeDelimited('RpcSaslProto', {
    state: 'NEGOTIATE',
    auths: [{ method: 'TOKEN', mechanism: 'DIGEST-MD5', protocol: '', serverId: 'default' }],
  });
  expect(auth.includes(Buffer.from([0x1a, 0x00]))).toBe(true);
  const header = {
    rpcKind: 'RPC_PROTOCOL_BUFFER',
    rpcOp: 'RPC_FINAL_PACKET',
    callId: -33,
    clientId: new Uint8Array(),
    retryCount: -1,
  } as const;
  expect(encodeDelimited('RpcRequestHeaderProto', header).toString('hex')).toBe('0a08021000184122002801');
});

test('decoding rejects a message that lacks a required field', () => {
  expect(() => decodeMessage('TokenProto', Buffer.alloc(0))).toThrow('missing required');
});

test('splits delimited messages at their boundaries', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 400 }), { maxLength: 5 }), (urls) => {
      const bytes = Buffer.concat(urls.map((url) => encodeDelimited('FinishApplicationMasterRequestProto', { tracking_url: url })));
      let at = 0;
      for (const url of urls) {
        const { message, next } = splitDelimited(bytes, at);
        expect(decodeMessage('FinishApplicationMasterRequestProto', message)).toEqual({ tracking_url: url });
        at = next;
      }
      expect(at).toBe(bytes.length);
      expect(() => splitDelimited(bytes, at)).toThrow(RangeError);
    }),
  );
});

test('decodes any bytes as a response, or rejects them with an Error', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.constantFrom(
        'AllocateResponseProto',
        'RegisterApplicationMasterResponseProto',
        'RpcSaslProto',
        'StartContainersResponseProto',
        'RpcResponseHeaderProto',
      ),
      (bytes, name) => {
        try {
          expect(decodeMessage(name, bytes)).toBeTypeOf('object');
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test('decoding rejects unlimited nesting', () => {
  // SerializedExceptionProto.cause is nested: field 4, length-delimited.
  let bytes = Buffer.alloc(0);
  for (let depth = 0; depth < 5000; depth++) {
    bytes = Buffer.concat([Buffer.from([0x22]), lengthOf(bytes), bytes]);
  }
  expect(() => decodeMessage('SerializedExceptionProto', bytes)).toThrow();
});

function lengthOf(bytes: Buffer): Buffer {
  const digits: number[] = [];
  let rest = bytes.length;
  for (; rest > 0x7f; rest >>>= 7) {
    digits.push((rest & 0x7f) | 0x80);
  }
  return Buffer.from([...digits, rest]);
}
