import type { Framework } from '../framework.ts';
import { prepareRay } from './prepare-ray.ts';

export const ray: Framework = {
  title: 'Ray',
  programs: 'only the task with rank 0 runs the command, which reaches the other tasks with ray.init()',
  trainingLibrary: 'never',
  reserved: ['RAY_ADDRESS', 'RAY_AUTH_MODE', 'RAY_AUTH_TOKEN', 'RAY_AUTH_TOKEN_PATH'],
  processes: prepareRay,
};
