/**
 * The profile `federation`: two nameservices that share a DataNode, plus other servers through which clients can reach HDFS: HttpFS for the
 * first nameservice, and a router with a mount point in each nameservice.
 */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ADMINISTRATOR } from './configuration.mjs';

/** @typedef {import('./profiles.mjs').Place} Place */

/** The nameservices, and the daemons of their NameNodes. */
const NAMESERVICES = /** @type {const} */ ({ ns1: 'namenode', ns2: 'namenode-2' });
/** The ID of the only server in each nameservice. */
const ID = 'a';
/** The router's nameservice. */
const ROUTERS = 'routed';

/** @type {import('./profiles.mjs').Profile} */
export const FEDERATION = {
  processes: [],
  daemons: {
    'namenode-2': {
      main: 'org.apache.hadoop.hdfs.server.namenode.NameNode',
      heap: '192m',
      ports: { rpc: 8220, http: 9770 },
      start: 'with Hadoop',
    },
    httpfs: {
      main: 'org.apache.hadoop.fs.http.server.HttpFSServerWebServer',
      heap: '128m',
      ports: { http: 9700 },
      start: 'with Hadoop',
      jars: 'gateways',
      flags: ({ state }) => [
        `-Dhttpfs.home.dir=${state}`,
        `-Dhttpfs.config.dir=${state}/conf/httpfs`,
        `-Dhttpfs.log.dir=${state}/logs`,
        `-Dhttpfs.temp.dir=${state}/tmp/httpfs`,
      ],
    },
    router: {
      main: 'org.apache.hadoop.hdfs.server.federation.router.DFSRouter',
      heap: '128m',
      ports: { rpc: 8320, http: 9771, admin: 8321 },
      start: 'with Hadoop',
      jars: 'gateways',
    },
  },
  prepare: async () => {},
  begin: async () => {},
  copyFormatted,
  properties,
  ownProperties,
  javaFlags: () => [],
};

/**
 * Creates the second NameNode's folder as a copy of the first one's: with the same cluster ID, but another block pool.
 * @param {Place} place
 * @param {string} formatted
 */
async function copyFormatted({ state }, formatted) {
  const folder = path.join(state, 'data', NAMESERVICES.ns2);
  await mkdir(path.dirname(folder), { recursive: true });
  await cp(formatted, folder, { recursive: true });
  const file = path.join(folder, 'current', 'VERSION');
  const version = await readFile(file, 'utf8');
  await writeFile(file, version.replace(/^blockpoolID=BP-\d+/m, 'blockpoolID=BP-2').replace(/^namespaceID=.*$/m, 'namespaceID=2'));
}

/** @param {Place} place @returns {import('./configuration.mjs').SiteProperties} */
function properties({ ports }) {
  /** @type {import('./configuration.mjs').Properties} */
  const hdfs = {
    'dfs.nameservices': [...Object.keys(NAMESERVICES), ROUTERS].join(','),
    // DataNodes register only with the nameservices in this list.
    'dfs.internal.nameservices': Object.keys(NAMESERVICES).join(','),
    'dfs.namenode.rpc-address': null,
    'dfs.namenode.http-address': null,
  };
  // Hadoop's clients resolve only the names of nameservices that list their NameNodes, as nameservices with HA do.
  for (const [service, daemon] of Object.entries({ ...NAMESERVICES, [ROUTERS]: 'router' })) {
    hdfs[`dfs.ha.namenodes.${service}`] = ID;
    hdfs[`dfs.client.failover.proxy.provider.${service}`] = 'org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider';
    hdfs[`dfs.namenode.rpc-address.${service}.${ID}`] = `localhost:${ports[daemon]?.rpc}`;
    hdfs[`dfs.namenode.http-address.${service}.${ID}`] = `localhost:${ports[daemon]?.http}`;
  }
  return {
    core: {
      'fs.defaultFS': 'hdfs://ns1',
      [`hadoop.proxyuser.${ADMINISTRATOR}.hosts`]: '*',
      [`hadoop.proxyuser.${ADMINISTRATOR}.groups`]: '*',
    },
    hdfs,
  };
}

/**
 * @param {Place} place
 * @param {string} name
 * @returns {import('./configuration.mjs').SiteProperties}
 */
function ownProperties({ state, ports }, name) {
  const service = Object.entries(NAMESERVICES).find(([, daemon]) => daemon === name)?.[0];
  if (service !== undefined) {
    const folder = `file://${state}/data/${name}`;
    return { hdfs: { 'dfs.nameservice.id': service, 'dfs.ha.namenode.id': ID, 'dfs.namenode.name.dir': folder } };
  }
  if (name === 'httpfs') {
    return { httpfs: { 'httpfs.http.hostname': 'localhost', 'httpfs.http.port': ports.httpfs?.http ?? null } };
  }
  if (name === 'router') {
    return {
      router: {
        'dfs.federation.router.rpc-address': `localhost:${ports.router?.rpc}`,
        'dfs.federation.router.http-address': `localhost:${ports.router?.http}`,
        'dfs.federation.router.admin-address': `localhost:${ports.router?.admin}`,
        'dfs.federation.router.default.nameserviceId': 'ns1',
        'dfs.federation.router.monitor.localnamenode.enable': false,
        // The router assigns a DataNode of several nameservices to the one with its newest heartbeat, and rejects writes to the others.
        'dfs.federation.router.monitor.namenode': `ns1.${ID}`,
        'dfs.federation.router.safemode.enable': false,
        'dfs.federation.router.heartbeat.interval': 1000,
        'dfs.federation.router.cache.ttl': '1s',
        // By default, the router caches an empty list of DataNodes for 10 s if it gets no response within 1 s.
        'dfs.federation.router.dn-report.cache-expire': '1s',
        'dfs.federation.router.dn-report.time-out': '20s',
        'dfs.federation.router.store.driver.class': 'org.apache.hadoop.hdfs.server.federation.store.driver.impl.StateStoreFileImpl',
        'dfs.federation.router.store.driver.file.directory': `${state}/data/router`,
      },
    };
  }
  return {};
}
