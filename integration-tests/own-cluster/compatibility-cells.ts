import * as z from 'zod';

const cell = z.object({
  hadoop: z.string(),
  profile: z.string(),
  /** Major version of the Node.js that runs the command, or null for the Node.js that runs the tests. */
  node: z.union([z.literal(20), z.literal(22), z.literal(24)]).nullable(),
});

export type Cell = z.infer<typeof cell>;

export function titleOf({ hadoop, profile, node }: Cell): string {
  return `Hadoop ${hadoop}, ${profile}${node === null ? '' : `, Node ${node}`}`;
}

/** `npm test` covers an older version and the newest one. */
const SHORT: readonly Cell[] = [
  { hadoop: '3.3.6', profile: 'acls', node: null },
  { hadoop: '3.5.0', profile: 'privacy', node: null },
];

/** `npm run matrix` selects the cells and the long form of the tests. */
export function cellsOf(environment: NodeJS.ProcessEnv): { readonly cells: readonly Cell[]; readonly isLong: boolean } {
  const { TONY_MATRIX: text } = environment;
  return !text ? { cells: SHORT, isLong: false } : { cells: z.array(cell).parse(JSON.parse(text)), isLong: true };
}
