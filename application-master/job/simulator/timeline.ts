interface Entry {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A virtual clock. Runs events in chronological order, and simultaneous events in the order in which they were scheduled. */
export class Timeline {
  now: number;
  #heap: Entry[] = [];
  #order = 0;

  constructor(start: number) {
    this.now = start;
  }

  after(delay: number, run: () => void): void {
    const entry = { at: this.now + delay, order: this.#order++, run };
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || before(above, entry)) {
        break;
      }
      heap[at] = above;
      at = parent;
    }
    heap[at] = entry;
  }

  advance(): boolean {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) {
      return false;
    }
    if (heap.length > 0) {
      let at = 0;
      for (;;) {
        let child = at * 2 + 1;
        let below = heap[child];
        if (below === undefined) {
          break;
        }
        const right = heap[child + 1];
        if (right !== undefined && before(right, below)) {
          child++;
          below = right;
        }
        if (before(last, below)) {
          break;
        }
        heap[at] = below;
        at = child;
      }
      heap[at] = last;
    }
    this.now = first.at;
    first.run();
    return true;
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
