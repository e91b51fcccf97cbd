import type { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client as SdkClient,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import type { S3Connection } from './s3-connection.ts';

/*
 * Sends requests to an object store. This module is a separate bundle (`s3-client.mjs`), because the SDK is large. Other bundles load it
 * when a program uses the first s3:// URI. It must not import modules whose classes other bundles compare with `instanceof`, such as
 * TonyError. Therefore it throws the SDK's own errors, and s3-errors.ts translates them.
 */

/**
 * An environment variable that disables an SDK warning. The SDK warns that its future versions will require a newer Node.js. This does not
 * matter, because the bundle always contains the same SDK version.
 */
const NO_WARNING = 'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED';

const ATTEMPTS = 5;
const CONNECT_MS = 10_000;
/** Maximum time in ms to wait for a response, and between two chunks of a body. */
const SILENCE_MS = 60_000;
const SOCKETS = 64;

/** Name of the metadata field that contains the ID of the writer that created an object. */
const WRITER = 'tony-writer';

export interface ObjectPlace {
  readonly bucket: string;
  readonly key: string;
}

export interface StoredObject {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: number;
  readonly etag?: string;
}

export interface ListRequest {
  readonly bucket: string;
  readonly prefix: string;
  /** If true, the response contains only the objects and the common prefixes directly below `prefix`. */
  readonly isShallow: boolean;
  readonly most?: number | undefined;
  readonly token?: string | undefined;
}

export interface ListPage {
  readonly objects: readonly StoredObject[];
  readonly prefixes: readonly string[];
  /** The token for the next page. Undefined on the last page. */
  readonly token: string | undefined;
}

export interface Upload extends ObjectPlace {
  readonly id: string;
  readonly writer: string;
}

export interface UploadedPart {
  readonly number: number;
  readonly etag: string;
}

/** A client for one object store. The SDK retries failed requests with exponential backoff. */
export class S3Client {
  readonly #client: SdkClient;

  constructor({ endpoint, region, pathStyle, accessKeyId, secretAccessKey, sessionToken }: S3Connection) {
    const text = (secret: { reveal(): Uint8Array }): string => Buffer.from(secret.reveal()).toString('utf8');
    const before = process.env[NO_WARNING];
    process.env[NO_WARNING] = 'true';
    this.#client = new SdkClient({
      region,
      ...(endpoint !== null && { endpoint }),
      forcePathStyle: pathStyle,
      credentials: { accessKeyId, secretAccessKey: text(secretAccessKey), ...(sessionToken && { sessionToken: text(sessionToken) }) },
      maxAttempts: ATTEMPTS,
      retryMode: 'standard',
      requestHandler: {
        connectionTimeout: CONNECT_MS,
        requestTimeout: SILENCE_MS,
        throwOnRequestTimeout: true,
        socketTimeout: SILENCE_MS,
        httpAgent: { maxSockets: SOCKETS },
        httpsAgent: { maxSockets: SOCKETS },
      },
      // Many S3-compatible stores do not support the SDK's checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
    // Restore the environment, because the user's program inherits it.
    if (before === undefined) {
      delete process.env[NO_WARNING];
    }
  }

  /** @param range an HTTP range, e.g. `bytes=0-99` */
  async get({ bucket, key }: ObjectPlace, range?: string): Promise<Readable> {
    const { Body } = await this.#client.send(new GetObjectCommand({ Bucket: bucket, Key: key, Range: range }));
    return Body as Readable;
  }

  async head({ bucket, key }: ObjectPlace): Promise<StoredObject & { readonly writer: string | undefined }> {
    const head = await this.#client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
    const { ContentLength: size = 0, LastModified, ETag, Metadata } = head;
    return { key, size, modifiedAt: LastModified?.getTime() ?? 0, ...(ETag !== undefined && { etag: ETag }), writer: Metadata?.[WRITER] };
  }

  async headBucket(bucket: string): Promise<void> {
    await this.#client.send(new HeadBucketCommand({ Bucket: bucket }));
  }

  /**
   * Creates or replaces an object. If `isExclusive` is true and the object exists, fails with status 412.
   * @param writer a unique ID for this write
   */
  async put(
    { bucket, key }: ObjectPlace,
    body: Uint8Array,
    { writer, isExclusive }: { writer: string; isExclusive: boolean },
  ): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({
        Bucket: bucket,
        Key: key,
        Body: body,
        Metadata: { [WRITER]: writer },
        ...(isExclusive && { IfNoneMatch: '*' }),
      }),
    );
  }

  async list({ bucket, prefix, isShallow, most, token }: ListRequest): Promise<ListPage> {
    const page = await this.#client.send(
      new ListObjectsV2Command({
        Bucket: bucket,
        Prefix: prefix,
        ...(isShallow && { Delimiter: '/' }),
        MaxKeys: most,
        ContinuationToken: token,
      }),
    );
    return {
      objects: (page.Contents ?? []).map(({ Key = '', Size = 0, LastModified, ETag }) => ({
        key: Key,
        size: Size,
        modifiedAt: LastModified?.getTime() ?? 0,
        ...(ETag !== undefined && { etag: ETag }),
      })),
      prefixes: (page.CommonPrefixes ?? []).map(({ Prefix = '' }) => Prefix),
      token: page.IsTruncated === true ? page.NextContinuationToken : undefined,
    };
  }

  async remove({ bucket, key }: ObjectPlace): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }));
  }

  async startUpload({ bucket, key }: ObjectPlace, writer: string): Promise<Upload> {
    const { UploadId = '' } = await this.#client.send(
      new CreateMultipartUploadCommand({ Bucket: bucket, Key: key, Metadata: { [WRITER]: writer } }),
    );
    return { bucket, key, id: UploadId, writer };
  }

  async uploadPart({ bucket, key, id }: Upload, number: number, body: Uint8Array): Promise<UploadedPart> {
    const { ETag = '' } = await this.#client.send(
      new UploadPartCommand({ Bucket: bucket, Key: key, UploadId: id, PartNumber: number, Body: body }),
    );
    return { number, etag: ETag };
  }

  /** Copies the bytes from `first` to `last`, both inclusive, of an object in the same store. */
  async copyPart({ bucket, key, id }: Upload, number: number, source: ObjectPlace, first: number, last: number): Promise<UploadedPart> {
    const { CopyPartResult } = await this.#client.send(
      new UploadPartCopyCommand({
        Bucket: bucket,
        Key: key,
        UploadId: id,
        PartNumber: number,
        CopySource: [source.bucket, ...source.key.split('/')].map(encodeURIComponent).join('/'),
        CopySourceRange: `bytes=${first}-${last}`,
      }),
    );
    return { number, etag: CopyPartResult?.ETag ?? '' };
  }

  /** Creates the object from its parts. If `isExclusive` is true and the object exists, fails with status 412. */
  async completeUpload({ bucket, key, id }: Upload, parts: readonly UploadedPart[], isExclusive: boolean): Promise<void> {
    const inOrder = [...parts].sort((a, b) => a.number - b.number).map(({ number, etag }) => ({ PartNumber: number, ETag: etag }));
    await this.#client.send(
      new CompleteMultipartUploadCommand({
        Bucket: bucket,
        Key: key,
        UploadId: id,
        MultipartUpload: { Parts: inOrder },
        ...(isExclusive && { IfNoneMatch: '*' }),
      }),
    );
  }

  async abortUpload({ bucket, key, id }: Upload): Promise<void> {
    await this.#client.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: id }));
  }

  close(): void {
    this.#client.destroy();
  }
}
