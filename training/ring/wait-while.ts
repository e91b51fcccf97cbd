/**
 * Blocks this thread while the cell at `index` contains `value`. Returns false if it still does after `ms`.
 *
 * A thread that writes a cell notifies waiting threads afterwards. This notification can arrive after the reading thread has seen the new
 * value and waits again for the next one, so a notification alone does not mean that the cell has changed.
 */
export function waitWhile(cells: Int32Array, index: number, value: number, ms: number): boolean {
  const end = performance.now() + ms;
  while (Atomics.load(cells, index) === value) {
    if (Atomics.wait(cells, index, value, Math.max(0, end - performance.now())) === 'timed-out') {
      return Atomics.load(cells, index) !== value;
    }
  }
  return true;
}
