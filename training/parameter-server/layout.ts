/** A range of one variable's numbers, laid out flat. */
export interface Piece {
  /** Among the variables that are trained. */
  readonly variable: number;
  /** Its first number. */
  readonly from: number;
  /** How many numbers. */
  readonly count: number;
}

/** For each parameter server the pieces that it holds, in the order of the variables. */
export type Layout = readonly (readonly Piece[])[];

/** A variable of fewer numbers is never cut: what is saved would not be worth another operation. */
const LEAST_CUT = 16_384;
/** The largest part is at most this share of what each server should hold: so the fullest holds at most that much more than its due. */
const PARTS_OF_FAIR_SHARE = 4;

/**
 * Deals variables to servers so that all hold about equally many numbers: large variables are cut into parts, and each part, the largest
 * first, goes to whoever holds least. A variable that is placed goes whole where it is placed.
 *
 * @param sizes numbers of each variable.
 * @param placed the server of each variable; null where it is left to balance.
 */
export function layOut(sizes: readonly number[], servers: number, placed: readonly (number | null)[]): Layout {
  const loads = new Array<number>(servers).fill(0);
  /** Of each variable, how many numbers each server holds; undefined: it does not hold the variable. */
  const shares = sizes.map(() => new Array<number | undefined>(servers).fill(undefined));
  const hold = (server: number, variable: number, count: number) => {
    const share = shares[variable] as (number | undefined)[];
    share[server] = (share[server] ?? 0) + count;
    loads[server] = (loads[server] ?? 0) + count;
  };
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const mostOfPart = Math.max(LEAST_CUT, Math.ceil(total / servers / PARTS_OF_FAIR_SHARE));
  const parts: { readonly variable: number; readonly count: number }[] = [];
  for (const [variable, size] of sizes.entries()) {
    const server = placed[variable] ?? null;
    if (server === null) {
      parts.push(...cut(size, servers === 1 ? size : mostOfPart).map((count) => ({ variable, count })));
    } else {
      hold(server, variable, size);
    }
  }
  for (const { variable, count } of parts.sort((a, b) => b.count - a.count || a.variable - b.variable)) {
    hold(loads.indexOf(Math.min(...loads)), variable, count);
  }
  return loads.map((_, server) => shares.flatMap((share, variable) => pieceOf(share, variable, server)));
}

function cut(size: number, most: number): number[] {
  const parts = Math.max(1, Math.ceil(size / most));
  return Array.from({ length: parts }, (_, part) => Math.floor(((part + 1) * size) / parts) - Math.floor((part * size) / parts));
}

/** The servers that share a variable hold its numbers in their own order: one piece each. */
function pieceOf(share: readonly (number | undefined)[], variable: number, server: number): Piece[] {
  const count = share[server];
  const from = share.slice(0, server).reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return count === undefined ? [] : [{ variable, from, count }];
}

/** Numbers of some pieces together. */
export function numbersOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { count }) => sum + count, 0);
}
