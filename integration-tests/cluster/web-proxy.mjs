/** The profile `proxy`: YARN's web proxy runs outside the ResourceManager. */

const NAME = 'webproxy';

/** @type {import('./profiles.mjs').Profile} */
export const WEB_PROXY = {
  processes: [],
  daemons: {
    [NAME]: {
      main: 'org.apache.hadoop.yarn.server.webproxy.WebAppProxyServer',
      heap: '96m',
      ports: { http: 9099 },
      start: 'with Hadoop',
    },
  },
  prepare: async () => {},
  begin: async () => {},
  properties: (place) => ({ yarn: { 'yarn.web-proxy.address': webProxyAt(place) } }),
  javaFlags: () => [],
};

/** The `host:port` of the proxy. @param {Pick<import('./profiles.mjs').Place, 'ports'>} place */
export function webProxyAt({ ports }) {
  return `localhost:${ports[NAME]?.http}`;
}
