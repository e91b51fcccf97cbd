const PREFIX = 'fs.s3a.';

export interface Properties {
  get(key: string): string | undefined;
}

/**
 * Returns the properties that apply to a bucket: like Hadoop, `fs.s3a.bucket.BUCKET.KEY` replaces `fs.s3a.KEY`.
 * @param bucket '' for the properties of all buckets that have none of their own
 */
export function bucketProperties(properties: Properties, bucket: string): Properties {
  return {
    get: (key) =>
      (bucket === '' || !key.startsWith(PREFIX) ? undefined : properties.get(`${PREFIX}bucket.${bucket}.${key.slice(PREFIX.length)}`)) ??
      properties.get(key),
  };
}
