/**
 * Takes a cluster down when its owner goes, however that dies: the owner holds the other end of our standard input and never writes to it.
 * Usage: node watchdog.mjs OFFSET
 */
import { Cluster } from './cluster.mjs';

const cluster = new Cluster(Number(process.argv[2]));
process.stdin.resume();
process.stdin.once('end', async () => {
  await cluster.down();
});
