/** The profile `proxy`: YARN's web proxy runs outside the ResourceManager. */

const NAME = 'webproxy';

/** @type {import('./configuration.mjs').SiteProperties} */
const OWN = {
  // Without this filter, the proxy ignores user names in requests.
  core: { 'hadoop.http.filter.initializers': 'org.apache.hadoop.security.AuthenticationFilterInitializer' },
  // With the profile `ha`, the proxy runs on the host of both ResourceManagers and cannot tell which of them it belongs to.
  yarn: { 'yarn.resourcemanager.ha.id': 'rm1' },
};

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
  ownProperties: (_, name) => (name === NAME ? OWN : {}),
  javaFlags: () => [],
};

/** The `host:port` of the proxy. @param {Pick<import('./profiles.mjs').Place, 'ports'>} place */
export function webProxyAt({ ports }) {
  return `localhost:${ports[NAME]?.http}`;
}
