import { expect, test } from 'vitest';
import { parseFacts } from './node-probe.ts';

test('reads facts from output, and from the diagnostics of YARN', () => {
  const diagnostics = `[2026-11-25 09:00:00.000]Container exited with a non-zero exit code 64. Error file: prelaunch.err.
Last 4096 bytes of stderr :
tony-probe glibc=2.17
tony-probe python=python3 3.6.8 pip
tony-probe python=python3.9 3.9.2
tony-probe runtimeError=node: /lib64/libc.so.6: version 'GLIBC_2.28' not found
`;
  expect(parseFacts(diagnostics)).toEqual({
    glibc: ['2.17'],
    python: ['python3 3.6.8 pip', 'python3.9 3.9.2'],
    runtimeError: ["node: /lib64/libc.so.6: version 'GLIBC_2.28' not found"],
  });
  expect(parseFacts('the container was killed')).toEqual({});
});
