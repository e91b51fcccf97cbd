import * as z from 'zod';

/** Major version of the Node.js that runs the command, or null for the Node.js that runs the tests. */
const node = z.union([z.literal(20), z.literal(22), z.literal(24)]).nullable();
const cluster = z.object({ hadoop: z.string(), profile: z.string(), nodes: z.array(node).min(1) });

/** A cluster, and the versions of Node.js whose tests run on it one after another. */
export type Cluster = z.infer<typeof cluster>;

/** `npm test` covers an older version and the newest one. */
const SHORT: readonly Cluster[] = [
  { hadoop: '3.3.6', profile: 'acls', nodes: [null] },
  { hadoop: '3.5.0', profile: 'privacy', nodes: [null] },
];

/** `npm run matrix` selects the clusters and the long form of the tests. */
export function clustersOf(environment: NodeJS.ProcessEnv): { readonly clusters: readonly Cluster[]; readonly isLong: boolean } {
  const { TONY_MATRIX: text } = environment;
  return !text ? { clusters: SHORT, isLong: false } : { clusters: z.array(cluster).parse(JSON.parse(text)), isLong: true };
}
