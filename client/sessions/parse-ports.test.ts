import { expect, test } from 'vitest';
import { parsePorts } from './parse-ports.ts';
import { parseTask } from './parse-task.ts';

test('parses a port, and a port with another local port', () => {
  expect(parsePorts('6006')).toEqual({ port: 6006, localPort: undefined });
  expect(parsePorts(':6006')).toEqual({ port: 6006, localPort: 0 });
  expect(parsePorts('1:65535')).toEqual({ port: 65535, localPort: 1 });
});

test.each(['', '0', '65536', '80:65536', '65536:80', '80:', ':', 'http', '80:80:80', '-1', '1e3'])('rejects the port %j', (text) => {
  expect(() => parsePorts(text)).toThrow(expect.objectContaining({ code: 'USAGE' }));
});

test('parses a task', () => {
  expect(parseTask('parameter-server:12')).toEqual({ role: 'parameter-server', index: 12 });
});

test.each(['', 'worker', 'worker:', ':0', 'worker:x', 'worker:-1', 'worker:0:1'])('rejects the task %j', (text) => {
  expect(() => parseTask(text)).toThrow(expect.objectContaining({ code: 'USAGE' }));
});
