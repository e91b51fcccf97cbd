/** A range within a flattened variable. */
export interface Piece {
  /** The variable's index in the list of trained variables. */
  readonly variable: number;
  readonly from: number;
  readonly count: number;
}

/** For each parameter server, its pieces in variable order. */
export type Layout = readonly (readonly Piece[])[];

/**
 * The size, in elements, of the smallest variable that is split. For smaller variables, an additional operation per step would cost more
 * than it saves.
 */
const LEAST_CUT = 16_384;
/**
 * A split variable is cut into parts of at most 1/4 of a server's fair share of the weights, or at most LEAST_CUT if that is larger. The
 * server with the highest load therefore exceeds its fair share by at most one part.
 */
const PARTS_OF_FAIR_SHARE = 4;

/**
 * Distributes variables so that all servers hold about the same number of weights. Splits large variables into parts, and assigns the
 * parts, largest first, to the server with the lowest load. Never splits variables for which `placed` names a server.
 * @param sizes the number of elements in each variable.
 * @param placed each variable's server, or null for automatic placement.
 * @param held the number of weights that each server already holds.
 */
export function layOut(
  sizes: readonly number[],
  servers: number,
  placed: readonly (number | null)[],
  held: readonly number[] = new Array<number>(servers).fill(0),
): Layout {
  const loads = [...held];
  /** For each variable and server, the number of the variable's elements on that server, or undefined for none. */
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

/** Returns the variable's piece on a server. Pieces are consecutive, in server order. */
function pieceOf(share: readonly (number | undefined)[], variable: number, server: number): Piece[] {
  const count = share[server];
  const from = share.slice(0, server).reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return count === undefined ? [] : [{ variable, from, count }];
}

export function numbersOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { count }) => sum + count, 0);
}
