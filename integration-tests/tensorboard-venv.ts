import { fileURLToPath } from 'node:url';
import { pythonWith } from './python-environment.ts';

const VERSION = '2.21.0';

export function tensorboardPython(): Promise<string> {
  return pythonWith(fileURLToPath(new URL(`../.cache/tensorboard-${VERSION}`, import.meta.url)), [`tensorboard==${VERSION}`]);
}
