import { describe, expect, it } from 'vitest';
import { programEnvironment } from './program-environment.ts';

describe('programEnvironment', () => {
  it("puts the runtime's Node.js first in PATH and loads the hooks", () => {
    expect(programEnvironment('/c/tony', '/c/runtime', { PATH: '/usr/bin' })).toEqual({
      NODE_OPTIONS: '--require=/c/tony/register.mjs --disable-warning=ExperimentalWarning',
      TF_CPP_MIN_LOG_LEVEL: '2',
      MALLOC_MMAP_THRESHOLD_: '33554432',
      MALLOC_TRIM_THRESHOLD_: '536870912',
      TONY_RUNTIME: '/c/runtime',
      PATH: '/c/runtime/bin:/usr/bin',
    });
  });

  it("keeps the job's own Node.js options, log level and memory settings, and quotes paths with spaces", () => {
    const environment = { NODE_OPTIONS: '--max-old-space-size=4096', TF_CPP_MIN_LOG_LEVEL: '0', MALLOC_TRIM_THRESHOLD_: '1000' };
    expect(programEnvironment('/c 1/tony', null, environment)).toEqual({
      NODE_OPTIONS: '--max-old-space-size=4096 --require="/c 1/tony/register.mjs" --disable-warning=ExperimentalWarning',
      TF_CPP_MIN_LOG_LEVEL: '0',
    });
  });
});
