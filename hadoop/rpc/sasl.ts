import { Buffer } from 'node:buffer';
import { sameSecret } from '../../platform/same-secret.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import type { Token } from './credentials.ts';
import {
  type DigestInput,
  digestProof,
  digestResponse,
  isAtLeast,
  layerKeys,
  parseChallenge,
  parseDirectives,
  type Qop,
  sessionKey,
} from './digest-md5.ts';
import { type SecurityLayer, securityLayer } from './security-layer.ts';

type SaslMessage = HadoopMessages['RpcSaslProto'];
type SaslAuth = HadoopMessages['RpcSaslProto.SaslAuth'];

export type SaslStep =
  | { readonly done: false; readonly send: SaslMessage }
  /** `layer` protects all bytes that follow, in both directions. It is null if client and server have agreed on authentication only. */
  | { readonly done: true; readonly layer: SecurityLayer | null };

/** Thrown if the server offers less protection than the configuration requires. */
export class WeakProtection extends Error {}

type State =
  | { readonly name: 'new' }
  | { readonly name: 'negotiating' }
  /** The server has announced its method, but sends the challenge in a separate message. */
  | { readonly name: 'awaiting challenge'; readonly auth: SaslAuth }
  | { readonly name: 'responded'; readonly expectedProof: string; readonly layer: SecurityLayer | null }
  | { readonly name: 'done' }
  | { readonly name: 'errored' };

export type ClientNonce = () => string;

/**
 * Authenticates the client with a token, and verifies that the server knows the token's password. After an error, all later steps fail too.
 */
export class SaslClient {
  readonly #token: Token;
  readonly #minimum: Qop;
  readonly #clientNonce: ClientNonce;
  #state: State = { name: 'new' };

  /**
   * @param minimum weakest acceptable protection. It prevents an attacker on the network from removing the stronger options from the
   * server's offer.
   */
  constructor(token: Token, minimum: Qop, clientNonce: ClientNonce) {
    this.#token = token;
    this.#minimum = minimum;
    this.#clientNonce = clientNonce;
  }

  start(): SaslMessage {
    this.#state = { name: 'negotiating' };
    return { state: 'NEGOTIATE', auths: [] };
  }

  /** Processes a message from the server. Throws an Error for an unexpected message, and for a message without a valid proof. */
  step(message: SaslMessage): SaslStep {
    const state = this.#state;
    this.#state = { name: 'errored' };
    switch (state.name) {
      case 'negotiating':
        return this.#negotiated(message);
      case 'awaiting challenge':
        if (message.state !== 'CHALLENGE' || message.token === undefined) {
          throw new Error(`the server sent ${message.state} instead of a challenge`);
        }
        return { done: false, send: { state: 'RESPONSE', token: this.#respond(state.auth, message.token), auths: [] } };
      case 'responded':
        return this.#concluded(state, message);
      case 'new':
      case 'done':
      case 'errored':
        throw new Error(`the server sent ${message.state} out of turn`);
    }
  }

  #negotiated(message: SaslMessage): SaslStep {
    // A server that skips authentication does not prove its identity.
    if (message.state === 'SUCCESS') {
      throw new Error('the server requires no authentication');
    }
    if (message.state !== 'NEGOTIATE') {
      throw new Error(`the server sent ${message.state} instead of its methods`);
    }
    const offered = message.auths;
    const auth = offered.find(({ method }) => method === 'TOKEN');
    if (auth === undefined) {
      throw new Error(`the server offers ${offered.map(({ method }) => method).join(', ') || 'nothing'}, but no authentication by token`);
    }
    if (auth.mechanism !== 'DIGEST-MD5') {
      throw new Error(`the server requires the SASL mechanism ${auth.mechanism}; only DIGEST-MD5 is supported`);
    }
    // The client must repeat the server's offer unchanged, including an empty protocol but without the challenge.
    const { challenge, ...chosen } = auth;
    if (challenge === undefined) {
      this.#state = { name: 'awaiting challenge', auth };
      return { done: false, send: { state: 'INITIATE', auths: [chosen] } };
    }
    return { done: false, send: { state: 'INITIATE', token: this.#respond(auth, challenge), auths: [chosen] } };
  }

  #respond(auth: SaslAuth, challengeBytes: Uint8Array): Buffer {
    const challenge = parseChallenge(challengeBytes);
    const supported = challenge.qops.filter((offered) => offered !== 'auth-conf' || challenge.ciphers.length > 0);
    if (supported.length === 0) {
      throw new Error('the server offers no supported quality of protection or cipher');
    }
    const qop = supported.find((offered) => isAtLeast(offered, this.#minimum));
    if (qop === undefined) {
      throw new WeakProtection(
        `the server offers the protection ${supported.join(', ')}, but hadoop.rpc.protection requires at least ${this.#minimum}`,
      );
    }
    const cipher = qop === 'auth-conf' ? (challenge.ciphers[0] ?? null) : null;
    const input: DigestInput = {
      user: Buffer.from(this.#token.identifier).toString('base64'),
      password: Buffer.from(this.#token.password.reveal()).toString('base64'),
      realm: challenge.realm,
      nonce: challenge.nonce,
      cnonce: this.#clientNonce(),
      uri: `${auth.protocol ?? ''}/${auth.serverId ?? ''}`,
      qop,
    };
    const ha1 = sessionKey(input);
    this.#state = {
      name: 'responded',
      expectedProof: digestProof(ha1, input, ''),
      layer: qop === 'auth' ? null : securityLayer(layerKeys(ha1), cipher, challenge.maxBuffer),
    };
    return Buffer.from(digestResponse(ha1, input, cipher));
  }

  #concluded(state: State & { name: 'responded' }, message: SaslMessage): SaslStep {
    const proof = message.token === undefined ? undefined : parseDirectives(Buffer.from(message.token).toString('utf8')).get('rspauth');
    if (proof === undefined || !sameSecret(proof, state.expectedProof)) {
      throw new Error('the server could not prove that it knows the token');
    }
    if (message.state !== 'SUCCESS') {
      throw new Error(`the server sent ${message.state} instead of SUCCESS`);
    }
    this.#state = { name: 'done' };
    return { done: true, layer: state.layer };
  }
}
