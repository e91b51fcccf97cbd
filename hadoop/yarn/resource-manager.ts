import type { Agent as HttpsAgent } from 'node:https';
import axios, { type AxiosInstance, type AxiosResponse } from 'axios';
import * as z from 'zod';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { trustOf } from '../configuration/authorities.ts';
import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { loginOf } from '../configuration/login/login-of.ts';
import { textOfPage, withoutExceptionNames } from '../http/error-text.ts';
import { parseRemoteException } from '../http/remote-exception.ts';
import { AddressRound, type Outcome, outcomeOf } from '../rpc/address-round.ts';
import { parseApplicationId } from '../rpc/application-id.ts';
import { type Login, SimpleLogin, sendAs } from '../security/login.ts';
import { DEFAULT_TRUST, type ServerTrust } from '../tls/server-trust.ts';
import { tlsFailure } from '../tls/tls-failure.ts';
import { type ApplicationSubmission, submissionBody } from './application-submission.ts';
import { lacksLimits, type QueueRoom, queueRoomOf, queuesWithout, totalsOf } from './queue-room.ts';
import {
  type Application,
  type ApplicationState,
  type Attempt,
  applicationSchema,
  applicationStateSchema,
  asList,
  attemptSchema,
  type ClusterInfo,
  clusterInfoSchema,
  listOf,
  type Node,
  nodeSchema,
  type Queue,
  queuesOf,
  record,
  resourcesSchema,
  text,
} from './resource-manager-answers.ts';
import { parseYarnJson } from './yarn-json.ts';

/**
 * Converts an error response from the ResourceManager to an error.
 * @param path the request path
 * @param address the server that has answered
 */
function refusal(status: number, text: string, path: string, address: string): TonyError {
  const remote = parseRemoteException(text);
  const message = withoutExceptionNames(remote?.message ?? '');
  if (remote?.exception === 'NotFoundException' && path.startsWith('/ws/v1/cluster/apps/')) {
    return new TonyError('JOB_NOT_FOUND', `The ResourceManager does not know ${path.split('/')[5] ?? 'this application'}.`);
  }
  if (status === 401) {
    return new TonyError('RM_DENIED', `The ResourceManager ${address} requires authentication (HTTP 401).`, {
      hint: 'If the cluster uses Kerberos, set hadoop.security.authentication to kerberos in the core-site.xml of HADOOP_CONF_DIR.',
    });
  }
  if (remote !== null && (remote.exception === 'InvalidToken' || remote.message.includes('SecretManager$InvalidToken'))) {
    return new TonyError('TOKEN_EXPIRED', `The ResourceManager rejected the delegation token: ${message}`);
  }
  if (remote !== null) {
    return new TonyError('RM_DENIED', `The ResourceManager rejected the request: ${message || remote.exception}`);
  }
  // Servlet filters return errors as HTML or plain text.
  const plain = textOfPage(text).slice(0, 300);
  if (status === 403 || status === 400) {
    return new TonyError('RM_DENIED', `The ResourceManager rejected the request (HTTP ${status}): ${plain}`);
  }
  if (status >= 500) {
    return new TonyError('RM_UNREACHABLE', `The ResourceManager ${address} failed to serve the request (HTTP ${status}).`, {
      hint: "The ResourceManager's log shows the cause. Check also that the address is its web address.",
    });
  }
  return notResourceManager(`HTTP ${status}`, address);
}

function notResourceManager(what: string, address: string): TonyError {
  return new TonyError('RM_UNREACHABLE', `The server at ${address} is not a ResourceManager: ${what}.`);
}

/** For an answer in JSON that lacks expected values, or contains values of other types. */
function failUnexpected(field: string, addresses: readonly string[]): never {
  const what = field === '' ? 'it is not an object' : `${field} is missing or has another type`;
  throw new TonyError('RM_UNREACHABLE', `The ResourceManager's answer has an unexpected form: ${what}.`, {
    hint: `Check that ${addresses.join(' or ')} is the address of a ResourceManager, and that tony-ts supports this version of Hadoop (docs/compatibility.md).`,
  });
}

function unreachable(server: 'ResourceManager' | 'web proxy', reason: string): TonyError {
  return server === 'ResourceManager'
    ? new TonyError('RM_UNREACHABLE', `No ResourceManager could be reached. The last attempt failed: ${reason}`)
    : new TonyError('RM_UNREACHABLE', `YARN's web proxy could not be reached. The last attempt failed: ${reason}`, {
        hint: "Check that yarn.web-proxy.address is the address of YARN's web proxy, and that the proxy is running.",
      });
}

export interface ResourceManagerOptions {
  readonly addresses: readonly string[];
  /** Base URLs of the web proxies, which forward requests to ApplicationMasters. Defaults to `addresses`. */
  readonly proxies?: readonly string[];
  /** Short user name, or null if it is unknown. */
  readonly user: string | null;
  /** Defaults to a login that sends the user name. */
  readonly login?: Login;
  /** The trusted certificate authorities. Defaults to Node's own. */
  readonly trust?: ServerTrust;
  /** Maximum time in ms to find an active ResourceManager. */
  readonly maxWaitMs?: number;
  /** Maximum time in ms to wait for one response. */
  readonly timeoutMs?: number;
}

export interface ApplicationFilter {
  readonly user?: string;
  readonly states?: readonly ApplicationState[];
  readonly types?: readonly string[];
  readonly tags?: readonly string[];
  /**
   * Range of submission times in ms since the epoch, including both limits. The ResourceManager applies this filter even to applications
   * whose submission time it hides from the caller.
   */
  readonly submitted?: { readonly from?: number; readonly to?: number };
  readonly limit?: number;
}

export interface ProxyAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

interface Request {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly timeoutMs?: number;
}

const MAX_WAIT_MS = 5_000;
const TIMEOUT_MS = 10_000;
const MAXIMUM_ANSWER_BYTES = 64 * 1024 * 1024;

export const SUBMISSION_PATH = '/ws/v1/cluster/apps';

/** Internal application states, which appear only in responses to kill requests. */
const ENDING_STATES = ['KILLING', 'FINAL_SAVING', 'FINISHING'] as const;

/**
 * A client for the ResourceManager's REST API
 * (https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html). The client tries all ResourceManagers
 * until it finds the active one. It retries calls after connection failures. This is safe: a second kill or a second submission with the
 * same ID has no effect, and unused application IDs are harmless.
 */
export class ResourceManager {
  readonly #addresses: readonly string[];
  readonly #round: AddressRound;
  readonly #proxies: AddressRound;
  readonly #user: string | null;
  readonly #login: Login;
  readonly #scheme: string;
  readonly #timeoutMs: number;
  readonly #agent: HttpsAgent;
  readonly #http: AxiosInstance;

  constructor(options: ResourceManagerOptions) {
    this.#addresses = options.addresses;
    this.#round = new AddressRound(options.addresses, options.maxWaitMs ?? MAX_WAIT_MS);
    this.#proxies = options.proxies === undefined ? this.#round : new AddressRound(options.proxies, options.maxWaitMs ?? MAX_WAIT_MS);
    this.#scheme = options.addresses[0]?.startsWith('https:') ? 'https' : 'http';
    this.#user = options.user;
    this.#login = options.login ?? new SimpleLogin(options.user);
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#agent = (options.trust ?? DEFAULT_TRUST).agent();
    this.#http = axios.create({
      // Ignore proxy settings in the environment, because they are for addresses outside the cluster.
      proxy: false,
      httpsAgent: this.#agent,
      maxRedirects: 0,
      maxContentLength: MAXIMUM_ANSWER_BYTES,
      responseType: 'text',
      transformResponse: (text: unknown) => text,
      validateStatus: () => true,
    });
  }

  static of(
    configuration: HadoopConfiguration,
    user: string,
    options: { readonly maxWaitMs?: number; readonly timeoutMs?: number } = {},
  ): ResourceManager {
    const servers = {
      addresses: configuration.resourceManagers,
      ...(configuration.separateWebProxy === null ? {} : { proxies: configuration.webProxies }),
      trust: trustOf(configuration),
    };
    return new ResourceManager({ ...options, ...servers, user, login: loginOf(configuration, user) });
  }

  /** Returns a new application ID, and the resources of the largest container that the cluster can allocate, keyed by resource name. */
  async newApplication(): Promise<{ readonly applicationId: string; readonly maximum: Readonly<Record<string, number>> }> {
    const answer = await this.#json({ method: 'POST', path: '/ws/v1/cluster/apps/new-application' });
    const schema = z.object({ 'application-id': z.string(), 'maximum-resource-capability': resourcesSchema });
    const parsed = this.#checked(schema, answer);
    return { applicationId: parsed['application-id'], maximum: parsed['maximum-resource-capability'] };
  }

  async submit(submission: ApplicationSubmission): Promise<void> {
    await this.#json({ method: 'POST', path: SUBMISSION_PATH, body: submissionBody(submission) });
  }

  /**
   * Returns an application. Throws JOB_NOT_FOUND for an application that never existed or that the ResourceManager has already
   * removed.
   */
  async application(id: string): Promise<Application> {
    return this.#checked(z.object({ app: applicationSchema }), await this.#json({ method: 'GET', path: pathOf(id) })).app;
  }

  async applications(filter: ApplicationFilter = {}): Promise<Application[]> {
    const { user, states, types, tags, submitted: { from, to } = {}, limit } = filter;
    const query = {
      ...(user === undefined ? {} : { user }),
      ...(states === undefined ? {} : { states: states.join(',') }),
      ...(types === undefined ? {} : { applicationTypes: types.join(',') }),
      ...(tags === undefined ? {} : { applicationTags: tags.join(',') }),
      ...(from === undefined ? {} : { startedTimeBegin: String(from) }),
      ...(to === undefined ? {} : { startedTimeEnd: String(to) }),
      ...(limit === undefined ? {} : { limit: String(limit) }),
    };
    const answer = await this.#json({ method: 'GET', path: '/ws/v1/cluster/apps', query });
    return this.#checked(z.object({ apps: listOf('app', applicationSchema) }), answer).apps;
  }

  /** Asks the ResourceManager to kill an application. Returns the application's state, which can be transitional. */
  async kill(id: string, diagnostics?: string): Promise<ApplicationState | (typeof ENDING_STATES)[number]> {
    const body = { state: 'KILLED', ...(diagnostics === undefined ? {} : { diagnostics }) };
    const answer = await this.#json({ method: 'PUT', path: `${pathOf(id)}/state`, body });
    return this.#checked(z.object({ state: z.union([applicationStateSchema, z.enum(ENDING_STATES)]) }), answer).state;
  }

  async attempts(id: string): Promise<Attempt[]> {
    const answer = await this.#json({ method: 'GET', path: `${pathOf(id)}/appattempts` });
    return this.#checked(z.object({ appAttempts: listOf('appAttempt', attemptSchema) }), answer).appAttempts;
  }

  /**
   * Returns the active nodes, and lets the login sign in to them. If `states` is given, returns the nodes in any of these states instead,
   * e.g. LOST. On a node without a NodeManager, another program may listen on the NodeManager's port.
   */
  async nodes(states: readonly string[] = []): Promise<Node[]> {
    const query: Record<string, string> = states.length === 0 ? {} : { states: states.join(',') };
    const answer = await this.#json({ method: 'GET', path: '/ws/v1/cluster/nodes', query });
    const { nodes } = this.#checked(z.object({ nodes: listOf('node', nodeSchema) }), answer);
    if (states.length === 0) {
      // NodeManagers serve the same protocol as the ResourceManager.
      this.#login.admit(nodes.flatMap(({ nodeHttp }) => (nodeHttp === null ? [] : [`${this.#scheme}://${nodeHttp}`])));
    }
    return nodes;
  }

  /** Returns the queues to which jobs can be submitted. */
  async queues(): Promise<Queue[]> {
    return queuesOf(await this.#json({ method: 'GET', path: '/ws/v1/cluster/scheduler' }));
  }

  /**
   * Finds a queue by name or path, and returns the limits and usage of the queue, its ancestors and the user. Returns null if the response
   * does not contain the queue.
   */
  async queueRoom(name: string): Promise<QueueRoom | null> {
    const answer = await this.#json({ method: 'GET', path: '/ws/v1/cluster/scheduler' });
    const room = queueRoomOf(answer, name, this.#user ?? '');
    const nodes = room === null || !lacksLimits(room) ? [] : await this.nodes().catch(() => []);
    return queueRoomOf(answer, name, this.#user ?? '', totalsOf(nodes));
  }

  /** Returns the names of all queues if none of them has this name and YARN cannot create the queue. Otherwise, returns null. */
  async queuesWithout(name: string): Promise<readonly string[] | null> {
    return queuesWithout(await this.#json({ method: 'GET', path: '/ws/v1/cluster/scheduler' }), name);
  }

  /** Returns the names of all node labels. */
  async nodeLabels(): Promise<string[]> {
    const answer = await this.#json({ method: 'GET', path: '/ws/v1/cluster/get-node-labels' });
    // Hadoop 2 and 3 name the list differently, and omit it if the cluster has no labels.
    const { nodeLabelInfo, nodeLabelsInfo } = record(answer);
    return asList(nodeLabelInfo ?? record(nodeLabelsInfo).nodeLabelInfo ?? nodeLabelsInfo)
      .map((label) => text(record(label).name))
      .filter((name) => name !== '');
  }

  /** Returns the active ResourceManager's version and state. */
  async clusterInfo(): Promise<ClusterInfo> {
    const schema = z.object({ clusterInfo: clusterInfoSchema });
    // This is the only endpoint to which a ResourceManager responds while it is a standby or starting.
    const request: Request = { method: 'GET', path: '/ws/v1/cluster/info' };
    return this.#ask<ClusterInfo>(request, (response, address) => {
      if (response.status !== 200) {
        throw refusal(response.status, response.data, request.path, address);
      }
      const { clusterInfo } = this.#checked(schema, parsedJson(response.data, address));
      return clusterInfo.haState === 'ACTIVE'
        ? { result: clusterInfo }
        : { again: `this ResourceManager is in state ${clusterInfo.haState}` };
    });
  }

  /**
   * Fetches a page from the ApplicationMaster through YARN's web proxy. Returns null if there is no ApplicationMaster to respond: the
   * application is unknown, the ApplicationMaster has not registered yet, or the application has ended, in which case the proxy redirects.
   */
  async proxy(id: string, path: string, options: { readonly timeoutMs?: number } = {}): Promise<ProxyAnswer | null> {
    parseApplicationId(id);
    const [plain = '', search] = path.replace(/^\/+/, '').split('?', 2);
    const query = Object.fromEntries(new URLSearchParams(search));
    const request: Request = { method: 'GET', path: `/proxy/${id}/${plain}`, query, ...options };
    const answer = await this.#ask(request, (response) => ({ result: response }), this.#proxies);
    if (answer.status === 404 && isHtml(answer)) {
      return null;
    }
    if (answer.status >= 300 && answer.status < 400) {
      return null;
    }
    return { status: answer.status, contentType: contentTypeOf(answer), body: answer.data };
  }

  close(): void {
    this.#round.close();
    this.#proxies.close();
    this.#agent.destroy();
  }

  async #json(request: Request): Promise<unknown> {
    return this.#ask<unknown>(request, async (response, address) => {
      const { status, data } = response;
      if (status === 502 || status === 503 || status === 504) {
        return { again: `HTTP ${status}` };
      }
      // The body is empty after a successful submission.
      if (status >= 200 && status < 300) {
        return { result: data.trim() === '' ? {} : parsedJson(data, address) };
      }
      // While a ResourceManager is starting, it responds even though it has not loaded its applications yet.
      const state = await this.#haState(address);
      if (state !== null && state !== 'ACTIVE') {
        return { again: `this ResourceManager is in state ${state}` };
      }
      if (status === 404) {
        // The ResourceManager may have become active since the first request, so try again.
        const second = await this.#send(address, request);
        if ('again' in second) {
          return second;
        }
        if (second.response.status === 200) {
          return { result: parsedJson(second.response.data, address) };
        }
      }
      throw refusal(status, data, request.path, address);
    });
  }

  #checked<T>(schema: z.ZodType<T>, answer: unknown): T {
    const parsed = schema.safeParse(answer);
    return parsed.success ? parsed.data : failUnexpected(parsed.error.issues[0]?.path.join('.') ?? '', this.#addresses);
  }

  /** Returns a ResourceManager's HA state, or null if the ResourceManager does not report it. */
  async #haState(address: string): Promise<string | null> {
    const sent = await this.#send(address, { method: 'GET', path: '/ws/v1/cluster/info' });
    if ('again' in sent) {
      return null;
    }
    const found = /"haState"\s*:\s*"(\w+)"/.exec(sent.response.data);
    return found?.[1] ?? null;
  }

  async #ask<T>(
    request: Request,
    interpret: (response: AxiosResponse<string>, address: string) => Outcome<T> | Promise<Outcome<T>>,
    servers = this.#round,
  ): Promise<T> {
    const ended = await servers.run<T>(async (address) => {
      const sent = await this.#send(address, request);
      return 'again' in sent ? sent : interpret(sent.response, address);
    });
    if ('result' in ended) {
      return ended.result;
    }
    throw unreachable(servers === this.#round ? 'ResourceManager' : 'web proxy', ended.reason);
  }

  async #send(
    address: string,
    request: Request,
  ): Promise<{ readonly response: AxiosResponse<string> } | { readonly again: string; readonly rejected?: TonyError }> {
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
    try {
      const url = new URL(`${address}${request.path}`);
      url.search = new URLSearchParams(request.query).toString();
      const response = await sendAs(
        this.#login,
        url,
        (at, headers) => this.#sendOnce(at, headers, request, timeoutMs),
        ({ status }) => status,
      );
      return isStandby(response, request.path) ? { again: 'this ResourceManager is a standby' } : { response };
    } catch (error) {
      const failure = error instanceof TonyError ? error : tlsFailure(error, new URL(address));
      if (failure !== null) {
        return outcomeOf(failure);
      }
      return { again: axios.isCancel(error) ? `no response within ${timeoutMs} ms` : messageOf(error) };
    }
  }

  #sendOnce(url: URL, identity: Readonly<Record<string, string>>, request: Request, timeoutMs: number): Promise<AxiosResponse<string>> {
    const hasBody = request.body !== undefined;
    return this.#http.request<string>({
      method: request.method,
      url: url.href,
      headers: { Accept: 'application/json', ...identity, ...(hasBody ? { 'Content-Type': 'application/json' } : {}) },
      ...(hasBody ? { data: JSON.stringify(request.body) } : {}),
      // Unlike axios's own timeout, this one includes the time to connect.
      signal: AbortSignal.timeout(timeoutMs),
    });
  }
}

/**
 * Returns true if the response comes from a standby ResourceManager: a redirect to the active one with status 307, or a page that refreshes
 * itself. A redirect with status 302 comes from the web proxy.
 */
function isStandby(response: AxiosResponse<string>, path: string): boolean {
  if (response.status === 307 || /^(This is standby RM|There is no active RM)/.test(response.data)) {
    return true;
  }
  return response.headers.refresh !== undefined && path.startsWith('/ws/');
}

function isHtml(response: AxiosResponse<string>): boolean {
  return contentTypeOf(response).startsWith('text/html');
}

function contentTypeOf(response: AxiosResponse<string>): string {
  const type: unknown = response.headers['content-type'];
  return typeof type === 'string' ? type : '';
}

function parsedJson(text: string, address: string): unknown {
  try {
    return parseYarnJson(text);
  } catch {
    throw notResourceManager('its response is not JSON', address);
  }
}

function pathOf(id: string): string {
  parseApplicationId(id);
  return `/ws/v1/cluster/apps/${id}`;
}
