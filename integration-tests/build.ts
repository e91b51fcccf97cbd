/** Builds the package once before all integration tests of a `vitest` run: the tests use the built package. */
import { buildAll } from '../tools/build.mjs';

export async function setup(): Promise<void> {
  // `npm test` and `npm run matrix` start these tests several times and build the package themselves.
  if (process.env.TONY_PACKAGE_BUILT === undefined) {
    await buildAll({ types: false });
  }
}
