import { Buffer } from 'node:buffer';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { decodeMessage, splitDelimited } from './messages.ts';
import { WritableReader, writeBytes, writeText, writeVInt } from './writable.ts';

/*
 * Format of the credentials file, $HADOOP_TOKEN_FILE_LOCATION (org.apache.hadoop.security.Credentials):
 *
 *   "HDTS"  4 bytes
 *   format  1 byte
 *   format 0 (written by NodeManagers, and supported by all Hadoop versions):
 *     VInt number of tokens,  each: Text alias, Bytes identifier, Bytes password, Text kind, Text service
 *     VInt number of secrets, each: Text alias, Bytes secret
 *   format 1: a length-delimited CredentialsProto
 */
const MAGIC = Buffer.from('HDTS');

/** The user or container to which the token belongs. The identifier is not secret, unlike the password. */
export interface Token {
  readonly identifier: Uint8Array;
  readonly password: Secret;
  readonly kind: string;
  readonly service: string;
}

export interface Credentials {
  readonly tokens: readonly { readonly alias: string; readonly token: Token }[];
  readonly secrets: ReadonlyMap<string, Secret>;
}

/**
 * The kind of token that an ApplicationMaster uses to authenticate to the ResourceManager. In the credentials file, the token's alias and
 * service are empty.
 */
export const MASTER_TOKEN_KIND = 'YARN_AM_RM_TOKEN';

/**
 * Decodes a credentials file in format 0 or 1.
 * @throws TonyError CREDENTIALS_INVALID
 */
export function decodeCredentials(bytes: Uint8Array): Credentials {
  if (!MAGIC.equals(bytes.subarray(0, MAGIC.length))) {
    throw new TonyError('CREDENTIALS_INVALID', 'The credentials file does not begin with HDTS.');
  }
  const format = bytes[MAGIC.length];
  const body = bytes.subarray(MAGIC.length + 1);
  if (format !== 0 && format !== 1) {
    throw new TonyError('CREDENTIALS_INVALID', `The credentials file has the unknown format ${format ?? '(none)'}.`);
  }
  try {
    return format === 0 ? decodeWritable(body) : decodeProtobuf(body);
  } catch (error) {
    throw new TonyError('CREDENTIALS_INVALID', `The credentials file is damaged: ${messageOf(error)}.`, { cause: error });
  }
}

function decodeWritable(body: Uint8Array): Credentials {
  const reader = new WritableReader(body);
  const tokens: { alias: string; token: Token }[] = [];
  for (let left = reader.count(5); left > 0; left--) {
    tokens.push({ alias: reader.text(), token: decodeToken(reader) });
  }
  const secrets = new Map<string, Secret>();
  for (let left = reader.count(2); left > 0; left--) {
    secrets.set(reader.text(), new Secret(reader.bytes()));
  }
  if (reader.remaining > 0) {
    throw new RangeError(`${reader.remaining} bytes follow the end`);
  }
  return { tokens, secrets };
}

function decodeToken(reader: WritableReader): Token {
  return { identifier: reader.bytes(), password: new Secret(reader.bytes()), kind: reader.text(), service: reader.text() };
}

/** Creates a token from a decoded message. The token does not keep any reference to the received buffer. */
export function tokenOfMessage(message: HadoopMessages['TokenProto']): Token {
  return {
    identifier: Uint8Array.from(message.identifier),
    password: new Secret(message.password),
    kind: message.kind,
    service: message.service,
  };
}

export function messageOfToken(token: Token): HadoopMessages['TokenProto'] {
  return { identifier: token.identifier, password: token.password.reveal(), kind: token.kind, service: token.service };
}

function decodeProtobuf(body: Uint8Array): Credentials {
  const { message, next } = splitDelimited(Buffer.from(body), 0);
  if (next < body.length) {
    throw new RangeError(`${body.length - next} bytes follow the end`);
  }
  const proto = decodeMessage('CredentialsProto', message);
  return {
    tokens: proto.tokens.map(({ alias, token }) => {
      if (token === undefined) {
        throw new RangeError(`the entry "${alias}" has no token`);
      }
      return { alias, token: tokenOfMessage(token) };
    }),
    secrets: new Map(proto.secrets.map(({ alias, secret }) => [alias, new Secret(secret ?? new Uint8Array())])),
  };
}

/** Encodes credentials in format 0. */
export function encodeCredentials(credentials: Credentials): Buffer {
  return Buffer.concat([
    MAGIC,
    Buffer.from([0]),
    writeVInt(credentials.tokens.length),
    ...credentials.tokens.flatMap(({ alias, token }) => [writeText(alias), encodeToken(token)]),
    writeVInt(credentials.secrets.size),
    ...[...credentials.secrets].flatMap(([alias, secret]) => [writeText(alias), writeBytes(secret.reveal())]),
  ]);
}

function encodeToken(token: Token): Buffer {
  return Buffer.concat([
    writeBytes(token.identifier),
    writeBytes(token.password.reveal()),
    writeText(token.kind),
    writeText(token.service),
  ]);
}

export function findToken(credentials: Credentials, kind: string): Token | undefined {
  return credentials.tokens.find(({ token }) => token.kind === kind)?.token;
}

/** The kind of delegation token that a user uses to authenticate to the ResourceManager. */
export const RESOURCE_MANAGER_TOKEN_KIND = 'RM_DELEGATION_TOKEN';

const OF_MASTER: ReadonlySet<string> = new Set([MASTER_TOKEN_KIND, RESOURCE_MANAGER_TOKEN_KIND]);

/**
 * Returns the credentials for a task's container. They consist of the given secrets and all tokens except those for the ResourceManager,
 * which only the ApplicationMaster needs.
 */
export function credentialsForTasks(credentials: Credentials, secrets: ReadonlyMap<string, Secret>): Credentials {
  return { tokens: credentials.tokens.filter(({ token }) => !OF_MASTER.has(token.kind)), secrets };
}

/**
 * Decodes a token from a YARN REST API or WebHDFS response. The text is a Writable, encoded as URL-safe base64 without padding.
 * @throws TonyError CREDENTIALS_INVALID
 */
export function decodeTokenUrl(text: string): Token {
  try {
    if (!/^[\w-]*$/.test(text)) {
      throw new RangeError('not URL-safe base64');
    }
    const reader = new WritableReader(Buffer.from(text, 'base64url'));
    const token = decodeToken(reader);
    if (reader.remaining > 0) {
      throw new RangeError(`${reader.remaining} bytes follow the end`);
    }
    return token;
  } catch (error) {
    throw new TonyError('CREDENTIALS_INVALID', `A token is damaged: ${messageOf(error)}.`, { cause: error });
  }
}

export function encodeTokenUrl(token: Token): string {
  return encodeToken(token).toString('base64url');
}
