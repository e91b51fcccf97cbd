/**
 * Stops a cluster when its owner ends for any reason: the owner holds the writing end of this process's stdin and never writes to it.
 * Usage: node watchdog.mjs OFFSET
 */
import { Cluster } from './cluster.mjs';

const cluster = new Cluster(Number(process.argv[2]));
process.stdin.resume();
process.stdin.once('end', async () => {
  await cluster.down();
});
