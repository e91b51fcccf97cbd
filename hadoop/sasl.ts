import { Buffer } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import type { Token } from './credentials.ts';
import { type DigestInput, digestProof, digestResponse, layerKeys, parseChallenge, parseDirectives, sessionKey } from './digest-md5.ts';
import { type SecurityLayer, securityLayer } from './security-layer.ts';

/** RpcSaslProto. */
export interface SaslMessage {
  readonly state: 'SUCCESS' | 'NEGOTIATE' | 'INITIATE' | 'CHALLENGE' | 'RESPONSE' | 'WRAP';
  readonly token?: Uint8Array;
  readonly auths?: readonly SaslAuth[];
}

export interface SaslAuth {
  readonly method: string;
  readonly mechanism: string;
  readonly protocol?: string;
  readonly serverId?: string;
  readonly challenge?: Uint8Array;
}

export type SaslStep =
  | { readonly done: false; readonly send: SaslMessage }
  /** `layer` protects every byte from here on, both ways; null when only the ends were proven. */
  | { readonly done: true; readonly layer: SecurityLayer | null };

type State =
  | { readonly name: 'new' }
  | { readonly name: 'negotiating' }
  /** The server named its method; its challenge comes in a message of its own. */
  | { readonly name: 'awaiting challenge'; readonly auth: SaslAuth }
  | { readonly name: 'responded'; readonly expectedProof: string; readonly layer: SecurityLayer | null }
  | { readonly name: 'done' }
  | { readonly name: 'errored' };

/** What a new server nonce needs of ours. */
export type ClientNonce = () => string;

/**
 * Proves with a token who we are, and has the server prove that it knows the token too. Each step puts the exchange into `errored` before
 * it looks at anything: one that threw can never be carried on.
 */
export class SaslClient {
  readonly #token: Token;
  readonly #clientNonce: ClientNonce;
  #state: State = { name: 'new' };

  constructor(token: Token, clientNonce: ClientNonce) {
    this.#token = token;
    this.#clientNonce = clientNonce;
  }

  start(): SaslMessage {
    this.#state = { name: 'negotiating' };
    return { state: 'NEGOTIATE' };
  }

  /** Throws an Error with a sentence. */
  step(message: SaslMessage): SaslStep {
    const state = this.#state;
    this.#state = { name: 'errored' };
    switch (state.name) {
      case 'negotiating':
        return this.#negotiated(message);
      case 'awaiting challenge':
        if (message.state !== 'CHALLENGE' || message.token === undefined)
          throw new Error(`it answered ${message.state} where a challenge was due`);
        return { done: false, send: { state: 'RESPONSE', token: this.#respond(state.auth, message.token) } };
      case 'responded':
        return this.#concluded(state, message);
      case 'new':
      case 'done':
      case 'errored':
        throw new Error(`it sent ${message.state} out of turn`);
    }
  }

  #negotiated(message: SaslMessage): SaslStep {
    // A server that wants no proof gives none either: the token's bearer would talk to anybody.
    if (message.state === 'SUCCESS') throw new Error('it wants no authentication');
    if (message.state !== 'NEGOTIATE') throw new Error(`it answered ${message.state} where its methods were due`);
    const offered = message.auths ?? [];
    const auth = offered.find(({ method }) => method === 'TOKEN');
    if (auth === undefined)
      throw new Error(`it offers ${offered.map(({ method }) => method).join(', ') || 'nothing'} and no authentication by token`);
    if (auth.mechanism !== 'DIGEST-MD5')
      throw new Error(`it wants the SASL mechanism ${auth.mechanism}, which is not supported (only DIGEST-MD5 is)`);
    // Chosen exactly as offered, an empty protocol included, without the challenge.
    const { challenge, ...chosen } = auth;
    if (challenge === undefined) {
      this.#state = { name: 'awaiting challenge', auth };
      return { done: false, send: { state: 'INITIATE', auths: [chosen] } };
    }
    return { done: false, send: { state: 'INITIATE', token: this.#respond(auth, challenge), auths: [chosen] } };
  }

  #respond(auth: SaslAuth, challengeBytes: Uint8Array): Buffer {
    const challenge = parseChallenge(challengeBytes);
    const qop = challenge.qops.find((offered) => offered !== 'auth-conf' || challenge.ciphers.length > 0);
    if (qop === undefined) throw new Error('it offers no quality of protection or cipher that is supported');
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
    if (proof === undefined || !equal(proof, state.expectedProof)) throw new Error('it could not prove that it knows the token');
    if (message.state !== 'SUCCESS') throw new Error(`it answered ${message.state} where the end was due`);
    this.#state = { name: 'done' };
    return { done: true, layer: state.layer };
  }
}

function equal(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
