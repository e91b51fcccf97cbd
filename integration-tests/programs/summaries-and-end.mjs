/**
 * `summaries-and-end.mjs DIR END`: logs a few points. While the points are still buffered, the program ends in the way that END specifies.
 */
import { join } from 'tony-ts/training';

const [dir = '', end] = process.argv.slice(2);
const { summaries } = await join({ summaryDir: dir });
for (let step = 1; step <= 20; step++) {
  summaries.scalar('loss', 1 / step, step);
}
if (end === 'throw') {
  throw new Error('on purpose');
}
if (end === 'exit') {
  process.exit(0);
}
if (end === 'wait') {
  console.log('waiting');
  setInterval(() => {}, 1000);
}
