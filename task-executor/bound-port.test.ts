import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { bindFreePort } from './bound-port.ts';

async function dial(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  try {
    const [data] = await once(socket, 'data');
    return String(data);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown';
  } finally {
    socket.destroy();
  }
}

it('reserves a port without listening; the program that inherits the socket can listen on it', async () => {
  const bound = await bindFreePort('127.0.0.1');
  expect(await dial(bound.port)).toBe('ECONNREFUSED');
  const program = "require('net').createServer((s) => s.end('program')).listen({ fd: 3 }, () => console.log('up'))";
  const child = spawn('/bin/bash', ['-c', `: ; node -e "${program}"`], {
    stdio: ['ignore', 'pipe', 'inherit', bound.descriptor],
    detached: true,
  });
  onTestFinished(() => void process.kill(-(child.pid as number), 'SIGKILL'));
  bound.close();
  if (child.stdout !== null) {
    await once(child.stdout, 'data');
  }
  expect(await dial(bound.port)).toBe('program');
});

it('a program that did not inherit the socket can listen on the port while another process holds the bound socket', async () => {
  const bound = await bindFreePort('127.0.0.1');
  onTestFinished(() => bound.close());
  const server = createServer((socket) => socket.end('beside'));
  onTestFinished(() => void server.close());
  server.listen(bound.port, '127.0.0.1');
  await once(server, 'listening');
  expect(await dial(bound.port)).toBe('beside');
});

it('returns different ports, even if the host name does not belong to this machine', async () => {
  // A label that is longer than 63 characters is invalid, so no name server is queried.
  const unknown = 'x'.repeat(64);
  const ports = await Promise.all(['127.0.0.1', '127.0.0.1', unknown, '192.0.2.1'].map(bindFreePort));
  expect(new Set(ports.map(({ port }) => port)).size).toBe(ports.length);
  for (const port of ports) {
    port.close();
  }
});
