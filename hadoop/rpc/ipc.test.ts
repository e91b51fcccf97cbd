import { Buffer } from 'node:buffer';
import { createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { capture, capturedDigests, golden } from '../testing/capture.ts';
import { CLOSED_ADDRESS } from '../testing/closed-port.ts';
import { type FakeCall, FakeDaemon, type FakeDaemonOptions } from '../testing/fake-daemon.ts';
import type { Token } from './credentials.ts';
import { encodeFrame } from './frame.ts';
import { IpcConnection, type IpcOptions } from './ipc.ts';
import { decodeMessage, encodeDelimited, splitDelimited } from './messages.ts';
import { RemoteError } from './remote-error.ts';

const INVALID_TOKEN = 'org.apache.hadoop.security.token.SecretManager$InvalidToken';
const MASTER_PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB', version: 1 };
const token: Token = {
  identifier: Buffer.from('attempt 1'),
  password: new Secret(Buffer.from('secret')),
  kind: 'YARN_AM_RM_TOKEN',
  service: '',
};

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) {
    await close();
  }
});

function connect(endpoint: { host: string; port: number }, options: Partial<IpcOptions> = {}): IpcConnection {
  const connection = new IpcConnection({
    endpoint,
    protocol: MASTER_PROTOCOL,
    caller: { token, minimumQop: 'auth' },
    clientId: Buffer.alloc(16, 7),
    connectTimeoutMs: 5000,
    ...options,
  });
  closing.push(() => connection.close());
  return connection;
}

async function daemon(answer: FakeDaemonOptions['answer'], options: Partial<FakeDaemonOptions> = {}): Promise<FakeDaemon> {
  const fake = await FakeDaemon.start({ answer, tokens: () => [token], ...options });
  closing.push(() => fake.stop());
  return fake;
}

async function rawServer(onConnection: (socket: Socket) => void): Promise<{ host: string; port: number }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    closing.push(() => void socket.destroy());
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const address = server.address();
  if (address === null || typeof address === 'string') {
    throw new Error('no address');
  }
  return { host: '127.0.0.1', port: address.port };
}

/** Expects exactly the captured client's bytes and sends the captured server's bytes. */
async function replay(name: string, received: Buffer[]): Promise<{ host: string; port: number }> {
  return await rawServer((socket) => {
    const lines = capture(name).filter(({ inside }) => !inside);
    let expected = 0;
    let got = 0;
    const advance = () => {
      for (let line = lines[0]; line !== undefined; line = lines[0]) {
        if (line.from === 'server') {
          socket.write(line.bytes);
        } else if (got >= expected + line.bytes.length) {
          expected += line.bytes.length;
        } else {
          return;
        }
        lines.shift();
      }
      if (name.startsWith('err-')) {
        socket.end();
      }
    };
    socket.on('data', (chunk) => {
      received.push(chunk);
      got += chunk.length;
      advance();
    });
  });
}

const register = (connection: IpcConnection, host?: string, port?: number, url?: string) =>
  connection.call('registerApplicationMaster', 'RegisterApplicationMasterRequestProto', { host, rpc_port: port, tracking_url: url }, 5000);

const allocate = (connection: IpcConnection, responseId: number, timeoutMs = 5000) =>
  connection.call('allocate', 'AllocateRequestProto', { response_id: responseId, ask: [], release: [] }, timeoutMs);
const responseId = (bytes: Buffer) => decodeMessage('AllocateResponseProto', bytes).response_id;
const requestId = (call: FakeCall) => decodeMessage('AllocateRequestProto', call.request).response_id;
const allocated = (id?: number) => ({ success: 'AllocateResponseProto', message: { response_id: id } }) as const;

function registration(name: string): HadoopMessages['RegisterApplicationMasterRequestProto'] & { readonly clientId: Uint8Array } {
  const lines = capture(name).filter(
    ({ from, comment }) => from === 'client' && /call registerApplicationMaster(?! \(wrapped)/.test(comment),
  );
  const frame = lines[0]?.bytes as Buffer;
  const header = splitDelimited(frame, 4);
  const call = splitDelimited(frame, header.next);
  return {
    ...decodeMessage('RegisterApplicationMasterRequestProto', splitDelimited(frame, call.next).message),
    clientId: decodeMessage('RpcRequestHeaderProto', header.message).clientId,
  };
}

describe.each(Object.entries(capturedDigests).filter(([name, { cipher }]) => name.startsWith('amrm-') && cipher !== 'rc4'))(
  'replaying the capture %s',
  (name, digest) => {
    test('connecting and registering send the captured bytes and decode the captured response', async () => {
      const registered = registration(name);
      const received: Buffer[] = [];
      const connection = connect(await replay(name, received), {
        caller: {
          token: { ...token, identifier: Buffer.from(digest.identifier, 'hex'), password: new Secret(Buffer.from(digest.password, 'hex')) },
          minimumQop: 'auth',
        },
        clientId: Buffer.from(registered.clientId),
        clientNonce: () => digest.cnonce,
      });
      const answer = decodeMessage(
        'RegisterApplicationMasterResponseProto',
        await register(connection, registered.host, registered.rpc_port, registered.tracking_url),
      );
      expect(answer.queue).toBe('root.default');
      expect(answer.resource_types.map(({ name: type }) => type)).toContain('yarn.io/gpu');
      const sent = capture(name).filter(({ from, inside }) => from === 'client' && !inside);
      const upToRegister = Buffer.concat(sent.slice(0, 5).map(({ bytes }) => bytes));
      expect(Buffer.concat(received).toString('hex')).toBe(upToRegister.toString('hex'));
    });
  },
);

describe('a captured refusal', () => {
  const errors: [string, object][] = [
    ['err-raw-http.hex', { code: 'RPC_MISMATCH', message: expect.stringContaining('HTTP') }],
    ['err-raw-v8.hex', { code: 'RPC_MISMATCH', message: expect.stringContaining('version 9') }],
    ['err-raw-v10.hex', { fatal: true, message: expect.stringContaining('cannot communicate with client version 10 (VersionMismatch)') }],
    ['err-raw-garbage.hex', { fatal: true, exceptionClassName: 'org.apache.hadoop.ipc.RPC$VersionMismatch' }],
    ['err-raw-simple-auth.hex', { fatal: true, exceptionClassName: 'org.apache.hadoop.security.AccessControlException' }],
    ['err-raw-unknown-auth.hex', { fatal: true, exceptionClassName: 'org.apache.hadoop.ipc.IpcException' }],
    ['err-bad-password.hex', { fatal: true, exceptionClassName: 'javax.security.sasl.SaslException' }],
    ['err-unknown-attempt.hex', { fatal: true, exceptionClassName: 'org.apache.hadoop.security.token.SecretManager$InvalidToken' }],
    ['err-garbage-identifier.hex', { code: 'RPC_DENIED', message: expect.stringContaining('closed the connection during authentication') }],
  ];
  test.each(errors)('causes a specific error: %s', async (name, expected) => {
    const answers = capture(name).filter(({ from }) => from === 'server');
    const endpoint = await rawServer((socket) => {
      socket.on('data', () => {
        const answer = answers.shift();
        if (answer === undefined) {
          socket.end();
        } else {
          socket.write(answer.bytes);
        }
      });
    });
    const connection = connect(endpoint);
    await expect(connection.opened()).rejects.toMatchObject(expected);
    await expect(allocate(connection, 0)).rejects.toMatchObject(expected);
    expect(connection.usable).toBe(false);
  });

  test('err-context-user-mismatch.hex fails the pending call', async () => {
    const name = 'err-context-user-mismatch.hex';
    const frame = capture(name)
      .filter(({ from }) => from === 'server')
      .at(-1)?.bytes as Buffer;
    const fake = await daemon((call) => {
      call.connection.socket.write(frame);
      return null;
    });
    await expect(allocate(connect(fake.endpoint), 0)).rejects.toMatchObject({
      fatal: true,
      exceptionClassName: 'org.apache.hadoop.security.AccessControlException',
    });
  });

  test('the connection stays usable after a call fails with any exception', async () => {
    const lines = golden('err-amrm-calls.decoded.txt')
      .toString()
      .split('\n')
      .filter((line) => line.startsWith('S {"callId":') && line.includes('"ERROR"'));
    const failures = lines.map((line) => JSON.parse(line.slice(2).trim()) as { exceptionClassName: string; errorMsg: string });
    expect(failures.length).toBeGreaterThan(10);
    let next = 0;
    const fake = await daemon(() => {
      const failure = failures[next++];
      return failure === undefined ? allocated(1) : { error: failure.exceptionClassName, message: failure.errorMsg };
    });
    const connection = connect(fake.endpoint);
    for (const failure of failures) {
      const error: unknown = await allocate(connection, 0).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(RemoteError);
      expect(error).toMatchObject({ exceptionClassName: failure.exceptionClassName, fatal: false });
      expect((error as RemoteError).message).not.toMatch(/\n|\tat /);
      expect((error as RemoteError).message).toContain(failure.errorMsg.split('\n')[0]?.trim());
    }
    expect(responseId(await allocate(connection, 0))).toBe(1);
  });
});

describe.each([
  ['auth', {}],
  ['auth-int', { qop: 'auth-int' }],
  ['auth-conf 3des', { qop: 'auth-conf', cipher: '3des' }],
  ['auth-conf rc4', { qop: 'auth-conf', cipher: 'rc4' }],
] as const)('a connection with %s', (_, protection) => {
  test('matches 500 concurrent calls with responses in any order', async () => {
    const waiting: FakeCall[] = [];
    const fake = await daemon((call) => {
      waiting.push(call);
      if (waiting.length === 500) {
        for (const item of waiting.reverse()) {
          item.connection.respond(item.callId, allocated(requestId(item)));
        }
      }
      return null;
    }, protection);
    const connection = connect(fake.endpoint);
    const answers = await Promise.all(Array.from({ length: 500 }, (_item, index) => allocate(connection, index)));
    expect(answers.map(responseId)).toEqual(Array.from({ length: 500 }, (_item, index) => index));
  });

  test('sends a request that does not fit into one protected message', async () => {
    const url = 'u'.repeat(270_000);
    const fake = await daemon(
      (call) => ({ success: 'FinishApplicationMasterRequestProto', message: { diagnostics: String(call.request.length) } }),
      protection,
    );
    await register(connect(fake.endpoint), 'h', 1, url);
    const request = decodeMessage('RegisterApplicationMasterRequestProto', fake.calls[0]?.request as Buffer);
    expect(request.tracking_url).toBe(url);
  });

  test('fails every pending call, in order, when a response is truncated at any position', async () => {
    let cut = 0;
    let whole = 1;
    const fake = await daemon((call) => {
      if (call.connection !== fake.connections.at(-1) || call.callId !== 2) {
        return null;
      }
      const { write } = call.connection.socket;
      call.connection.socket.write = ((bytes: Buffer) => {
        call.connection.socket.write = write;
        whole = bytes.length;
        call.connection.socket.end(bytes.subarray(0, cut));
        return true;
      }) as Socket['write'];
      return allocated(7);
    }, protection);
    for (cut = 0; cut < whole; cut++) {
      const connection = connect(fake.endpoint);
      const order: number[] = [];
      const calls = [0, 1, 2].map((index) =>
        allocate(connection, index).catch((error: unknown) => {
          order.push(index);
          return error;
        }),
      );
      for (const error of await Promise.all(calls)) {
        expect(error).toMatchObject({ code: 'RPC_UNREACHABLE', message: expect.stringContaining('closed the connection') });
      }
      expect(order).toEqual([0, 1, 2]);
      await expect(allocate(connection, 3)).rejects.toMatchObject({ code: 'RPC_UNREACHABLE' });
    }
  });
});

test.each<[string, HadoopMessages['RpcResponseHeaderProto']]>([
  ['a response', { callId: 0, status: 'SUCCESS' }],
  ['an exception', { callId: 0, status: 'ERROR', exceptionClassName: 'java.io.IOException', errorMsg: 'forged' }],
  ['a FATAL', { callId: 0, status: 'FATAL', exceptionClassName: INVALID_TOKEN, errorMsg: 'forged' }],
  ['a FATAL authentication error', { callId: -33 >>> 0, status: 'FATAL', exceptionClassName: INVALID_TOKEN, errorMsg: 'forged' }],
])('a protected connection fails if it receives %s outside its protection, and ignores the content', async (_, header) => {
  const fake = await daemon(
    (call) => {
      const body = encodeDelimited('FinishApplicationMasterResponseProto', { isUnregistered: true });
      call.connection.socket.write(encodeFrame(encodeDelimited('RpcResponseHeaderProto', header), body));
      return null;
    },
    { qop: 'auth-int' },
  );
  const error: unknown = await allocate(connect(fake.endpoint), 0).catch((thrown: unknown) => thrown);
  expect(error).not.toBeInstanceOf(RemoteError);
  expect(error).toMatchObject({ code: 'RPC_MISMATCH', message: expect.stringContaining('unprotected') });
});

test('a protected connection accepts a FATAL inside its protection', async () => {
  const fake = await daemon(() => ({ fatal: INVALID_TOKEN, message: 'it is over' }), { qop: 'auth-int' });
  await expect(allocate(connect(fake.endpoint), 0)).rejects.toMatchObject({ fatal: true, exceptionClassName: INVALID_TOKEN });
});

test('rejects a server with less protection than the configuration requires', async () => {
  const fake = await daemon(() => allocated(1), { qop: 'auth' });
  const connection = connect(fake.endpoint, { caller: { token, minimumQop: 'auth-conf' } });
  await expect(connection.opened()).rejects.toMatchObject({
    code: 'RPC_DENIED',
    message: expect.stringContaining('hadoop.rpc.protection'),
  });
});

test('drops a late response; the next call gets its own response', async () => {
  const late: FakeCall[] = [];
  const fake = await daemon((call) => {
    if (requestId(call) === 1) {
      late.push(call);
      return null;
    }
    for (const item of late.splice(0)) {
      item.connection.respond(item.callId, { success: 'AllocateResponseProto', message: { response_id: 1 } });
    }
    return allocated(2);
  });
  const connection = connect(fake.endpoint);
  await expect(allocate(connection, 1, 50)).rejects.toMatchObject({
    code: 'RPC_UNAVAILABLE',
    message: expect.stringContaining('did not respond to allocate within 50 ms'),
  });
  expect(responseId(await allocate(connection, 2))).toBe(2);
  expect(responseId(await allocate(connection, 3))).toBe(2);
});

test('a FATAL response fails every pending call, no matter which call it names', async () => {
  const fake = await daemon((call) =>
    call.callId < 2 ? null : { fatal: 'org.apache.hadoop.ipc.RpcServerException', message: 'it is over' },
  );
  const connection = connect(fake.endpoint);
  const calls = await Promise.allSettled([0, 1, 2].map((index) => allocate(connection, index)));
  for (const call of calls) {
    expect(call).toMatchObject({ reason: { fatal: true, message: expect.stringContaining('it is over') } });
  }
});

test.each([
  ['a frame of 2 GiB', Buffer.from('7fffffff', 'hex')],
  ['a negative length', Buffer.from('80000001', 'hex')],
  ['a frame without a header', Buffer.from('00000000', 'hex')],
  ['a header that ends beyond its frame', Buffer.from('000000027f08', 'hex')],
  [
    'a response to a call that was not made',
    encodeFrame(encodeDelimited('RpcResponseHeaderProto', { callId: 99, status: 'SUCCESS' }), Buffer.from([0])),
  ],
  ['a response without its message', encodeFrame(encodeDelimited('RpcResponseHeaderProto', { callId: 0, status: 'SUCCESS' }))],
])('%s ends the connection immediately', async (_, bytes) => {
  const fake = await daemon((call) => {
    call.connection.socket.write(bytes);
    return null;
  });
  const connection = connect(fake.endpoint);
  await expect(allocate(connection, 0)).rejects.toMatchObject({ code: 'RPC_MISMATCH' });
  expect(connection.usable).toBe(false);
});

test('all calls end with a TonyError for any bytes from the server', async () => {
  let bytes: Uint8Array = new Uint8Array();
  const garbage = await rawServer((socket) => {
    socket.once('data', () => socket.end(bytes));
  });
  const fake = await daemon((call) => {
    call.connection.socket.end(bytes);
    return null;
  });
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.uint8Array({ maxLength: 64 }).map((body) => Buffer.from(body)),
        fc.uint8Array({ maxLength: 64 }).map((body) => encodeFrame(body)),
        fc
          .uint8Array({ maxLength: 64 })
          .map((body) => encodeFrame(encodeDelimited('RpcResponseHeaderProto', { callId: -33 >>> 0, status: 'SUCCESS' }), body)),
      ),
      fc.constantFrom(garbage, fake.endpoint),
      async (sent, endpoint) => {
        bytes = sent;
        const connection = new IpcConnection({
          endpoint,
          protocol: MASTER_PROTOCOL,
          caller: { token, minimumQop: 'auth' },
          clientId: Buffer.alloc(16),
          connectTimeoutMs: 5000,
        });
        const error: unknown = await allocate(connection, 0).catch((thrown: unknown) => thrown);
        connection.close();
        expect(error).toBeInstanceOf(TonyError);
      },
    ),
    { numRuns: 200 },
  );
});

test('the error for a closed port contains its address', async () => {
  await expect(connect(CLOSED_ADDRESS).opened()).rejects.toMatchObject({
    code: 'RPC_UNREACHABLE',
    message: expect.stringMatching(/127\.0\.0\.1:\d+ is not reachable: .*ECONNREFUSED/),
  });
});

test('a silent server fails the connection after a deadline', async () => {
  const endpoint = await rawServer(() => {});
  await expect(connect(endpoint, { connectTimeoutMs: 50 }).opened()).rejects.toMatchObject({
    code: 'RPC_UNREACHABLE',
    message: expect.stringContaining('did not respond within 50 ms'),
  });
});

test('closing rejects pending calls', async () => {
  const fake = await daemon(() => null);
  const connection = connect(fake.endpoint);
  await connection.opened();
  const call = allocate(connection, 0);
  // The connection sends the call in the next iteration of the event loop.
  await Promise.resolve();
  connection.close();
  await expect(call).rejects.toMatchObject({ code: 'RPC_ENDED' });
  await expect(allocate(connection, 1)).rejects.toMatchObject({ code: 'RPC_ENDED' });
});

test('rejects calls beyond the limit of concurrent calls', async () => {
  const fake = await daemon(() => null);
  const connection = connect(fake.endpoint);
  await connection.opened();
  const calls = Array.from({ length: 1025 }, (_, index) => allocate(connection, index));
  await expect(calls.at(-1)).rejects.toMatchObject({ code: 'RPC_UNAVAILABLE', message: expect.stringContaining('1024 calls') });
  connection.close();
  await Promise.allSettled(calls);
});
