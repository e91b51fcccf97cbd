/** Builds the package once before all integration tests of a `vitest` run: the tests use the built package. */
import { buildAll } from '../tools/build.mjs';

export async function setup(): Promise<void> {
  // `npm run matrix` starts these tests many times and builds the package itself.
  if (process.env.TONY_MATRIX === undefined) {
    await buildAll({ types: false });
  }
}
