const PREFIX = 'fs.s3a.';

export interface Properties {
  get(key: string): string | undefined;
}

/**
 * Returns the properties for a bucket. As in Hadoop, `fs.s3a.bucket.BUCKET.KEY` overrides `fs.s3a.KEY`.
 * @param bucket the bucket's name, or '' for buckets that have no specific properties
 */
export function bucketProperties(properties: Properties, bucket: string): Properties {
  return {
    get: (key) =>
      (bucket === '' || !key.startsWith(PREFIX) ? undefined : properties.get(`${PREFIX}bucket.${bucket}.${key.slice(PREFIX.length)}`)) ??
      properties.get(key),
  };
}
