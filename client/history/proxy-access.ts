import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../../platform/errors.ts';
import { isAddressedHere } from '../../web/server/access.ts';
import { answerText } from '../../web/server/answer.ts';
import { HostAddresses } from '../../web/server/host-addresses.ts';
import type { JobPlace } from '../records/job-place.ts';
import type { HistoryAccess, Visitor } from './history-access.ts';

/** A user name, or a Kerberos principal with one or two components and an optional realm. */
const USER = /^[\w][\w.-]{0,127}\$?(?:\/[\w.-]{1,253})?(?:@[\w.-]{1,253})?$/;

/**
 * Grants access to users whom a reverse proxy has authenticated, for example by SPNEGO. The proxy sends the user name in a header, which
 * the server accepts only from the proxy's addresses. Each job's view ACL controls access to its history.
 */
export class ProxyAccess implements HistoryAccess {
  readonly #proxies: HostAddresses;
  readonly #header: string;
  readonly #userOf: (name: string) => Promise<string>;
  readonly #viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
  readonly #hosts: readonly string[];

  /**
   * @param options.header name of the header, in lower case
   * @param options.userOf returns the short user name for a principal
   * @param options.hosts additional host names of the server, in lower case
   */
  constructor(options: {
    readonly proxies: readonly string[];
    readonly header: string;
    readonly userOf: (name: string) => Promise<string>;
    readonly viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
    readonly hosts: readonly string[];
  }) {
    this.#proxies = new HostAddresses(options.proxies);
    this.#header = options.header;
    this.#userOf = options.userOf;
    this.#viewers = options.viewers;
    this.#hosts = options.hosts;
  }

  async admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null> {
    const refuse = (message: string): null => {
      answerText(request, response, 403, message);
      return null;
    };
    if (!(await this.#proxies.include(request.socket.remoteAddress ?? ''))) {
      return refuse("This server answers only requests from its proxy: open the proxy's address.");
    }
    if (!isAddressedHere(request, this.#hosts)) {
      return refuse(
        'This server does not accept requests for this host name. To allow it, set history.url in tony-site.yaml to the address that users open.',
      );
    }
    // If the header occurs more than once, the proxy has not removed the header that the client sent.
    const [name = '', ...others] = request.headersDistinct[this.#header] ?? [];
    if (others.length > 0) {
      return refuse(`The proxy sent several ${this.#header} headers. It must replace the header that the client sends.`);
    }
    if (!USER.test(name)) {
      return refuse(name === '' ? `The proxy sent no user name in the header ${this.#header}.` : 'The proxy sent an invalid user name.');
    }
    try {
      return { user: await this.#userOf(name) };
    } catch (error) {
      return refuse(messageOf(error));
    }
  }

  expects(address: string): boolean {
    return this.#proxies.mayInclude(address);
  }

  async mayView({ user }: Visitor, place: JobPlace): Promise<boolean> {
    return (await this.#viewers(place))(user);
  }
}
