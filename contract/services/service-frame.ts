import type { Socket } from 'node:net';

/*
 * The protocol between a program and its executor. The executor forwards requests to the ApplicationMaster. For each request, a program
 * opens a connection to the executor's Unix socket.
 *
 *   ┌─────────────┬─────────────┬──────────────┬──────────────┐
 *   │ uint32      │ uint32      │ head         │ body         │   both lengths are big-endian
 *   │ length of   │ length of   │ JSON (UTF-8) │ bytes        │
 *   │ the head    │ the body    │              │              │
 *   └─────────────┴─────────────┴──────────────┴──────────────┘
 *
 * A request has the head { "service": name } and a JSON body. An answer has the head { "answer": ... } or { "error": { code, message, hint
 * } }. The head { "unavailable": true } means that the program must retry.
 */

export interface ServiceFrame {
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

export interface FrameLimits {
  readonly head: number;
  readonly body: number;
}

/**
 * Size limits in bytes. `readFrame` checks these limits before it allocates memory. A request must fit into a gRPC message. An answer may
 * contain a feed record.
 */
export const REQUEST_LIMITS: FrameLimits = { head: 4096, body: 960 * 1024 };
export const ANSWER_LIMITS: FrameLimits = { head: 1024 * 1024, body: 17 * 1024 * 1024 };

const PREFIX_BYTES = 8;

export function encodeFrame({ head, body }: ServiceFrame): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(head.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return Buffer.concat([prefix, head, body]);
}

/**
 * Reads one frame.
 * @throws Error if the connection ends early, or if the frame exceeds the limits.
 */
export function readFrame(socket: Socket, limits: FrameLimits): Promise<ServiceFrame> {
  return new Promise((resolve, reject) => {
    let prefix = Buffer.alloc(0);
    let content: Buffer | null = null;
    let headLength = 0;
    let filled = 0;
    const finish = (settle: () => void): void => {
      socket.off('data', take).off('error', fail).off('close', ended).off('end', ended);
      settle();
    };
    const fail = (error: Error): void => finish(() => reject(error));
    const ended = (): void => fail(new Error('the connection ended within a message'));
    const take = (bytes: Buffer): void => {
      let rest = bytes;
      if (content === null) {
        prefix = Buffer.concat([prefix, rest]);
        if (prefix.length < PREFIX_BYTES) {
          return;
        }
        headLength = prefix.readUInt32BE(0);
        const bodyLength = prefix.readUInt32BE(4);
        if (headLength > limits.head || bodyLength > limits.body) {
          fail(new Error(`a message of ${headLength} + ${bodyLength} bytes exceeds the maximum size`));
          return;
        }
        content = Buffer.allocUnsafe(headLength + bodyLength);
        rest = prefix.subarray(PREFIX_BYTES);
      }
      filled += rest.copy(content, filled);
      const whole = content;
      if (filled === whole.length) {
        finish(() => resolve({ head: whole.subarray(0, headLength), body: whole.subarray(headLength) }));
      }
    };
    socket.on('data', take).on('error', fail).on('close', ended).on('end', ended);
  });
}
