import { afterEach, expect, test, vi } from 'vitest';
import { sentVariables } from './build-environment.ts';

afterEach(() => void vi.unstubAllEnvs());

test('every variable that is set is named once, with the host as it is written', () => {
  vi.stubEnv('PASSWORD', 'hidden-1');
  vi.stubEnv('TOKEN', 'hidden-2');
  vi.stubEnv('ABSENT', '');
  const requirements = [
    `--index-url https://me:\${PASSWORD}@pypi.example.com/simple`,
    `--extra-index-url https://me:\${PASSWORD}@pypi.example.com/simple?a`,
    `--find-links https://files.example.com/\${TOKEN}/`,
    `one @ https://\${TOKEN}.example.com/one-1.0-py3-none-any.whl?\${PASSWORD}`,
    `--extra-index-url https://\${ABSENT}@pypi.example.com/simple`,
    'two ; python_version > "3.8"',
  ];
  const sent = sentVariables({ lines: { requirements, constraints: [`three @ https://c.example.com/\${PASSWORD}.whl`] } });
  expect(sent.map(({ variable, host }) => `${variable} ${host}`)).toEqual([
    'PASSWORD pypi.example.com',
    'TOKEN files.example.com',
    `TOKEN \${TOKEN}.example.com`,
    `PASSWORD \${TOKEN}.example.com`,
    'PASSWORD c.example.com',
  ]);
});
