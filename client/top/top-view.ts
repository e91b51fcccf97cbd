export interface TopView {
  readonly order: number;
  readonly reversed: boolean;
  readonly offset: number;
}

export interface Ordering<Row> {
  readonly name: string;
  readonly compare: (a: Row, b: Row) => number;
}

export const FIRST_VIEW: TopView = { order: 0, reversed: false, offset: 0 };

const KEYS = {
  quit: ['q', 'Q', '\x03', '\x04'],
  next: ['s', '\x1b[C', '\x1bOC'],
  previous: ['S', '\x1b[D', '\x1bOD'],
  reverse: ['r', 'R'],
  up: ['k', '\x1b[A', '\x1bOA'],
  down: ['j', '\x1b[B', '\x1bOB'],
  pageUp: ['\x1b[5~'],
  pageDown: [' ', '\x1b[6~'],
  home: ['\x1b[H', '\x1b[1~', '\x1bOH'],
} as const satisfies Record<string, readonly string[]>;
const PAGE_ROWS = 10;

/** Returns the view after a key press, or `quit`. */
export function afterKey(view: TopView, key: string, orders: number): TopView | 'quit' {
  switch (Object.entries(KEYS).find(([, keys]) => (keys as readonly string[]).includes(key))?.[0]) {
    case 'quit':
      return 'quit';
    case 'next':
      return { ...FIRST_VIEW, order: (view.order + 1) % orders };
    case 'previous':
      return { ...FIRST_VIEW, order: (view.order + orders - 1) % orders };
    case 'reverse':
      return { ...view, reversed: !view.reversed, offset: 0 };
    case 'up':
      return { ...view, offset: Math.max(0, view.offset - 1) };
    case 'down':
      return { ...view, offset: view.offset + 1 };
    case 'pageUp':
      return { ...view, offset: Math.max(0, view.offset - PAGE_ROWS) };
    case 'pageDown':
      return { ...view, offset: view.offset + PAGE_ROWS };
    case 'home':
      return { ...view, offset: 0 };
    default:
      return view;
  }
}

/** Sorts the rows. Equal rows keep their order. */
export function ordered<Row>(rows: readonly Row[], orderings: readonly Ordering<Row>[], { order, reversed }: TopView): Row[] {
  const compare = orderings[order]?.compare ?? (() => 0);
  const sorted = rows.toSorted(compare);
  return reversed ? sorted.toReversed() : sorted;
}

/** Compares rows for sorting in descending order. Rows without a value come last. */
export function most<Row>(amount: (row: Row) => number | null | undefined): (a: Row, b: Row) => number {
  return (a, b) => (amount(b) ?? -1) - (amount(a) ?? -1);
}
