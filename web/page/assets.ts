import { gunzipSync } from 'node:zlib';
// Made by tools/build.mjs from what stands in `browser/`.
import built from './built-assets.json' with { type: 'json' };

export interface Asset {
  readonly type: string;
  readonly body: Buffer;
  readonly gzip: Buffer;
  /** Also part of its name: what has this name never changes. */
  readonly hash: string;
}

type SourceName = keyof typeof built;

/** What the pages need besides their HTML, by name. */
export const ASSETS: ReadonlyMap<string, Asset> = new Map(
  Object.values(built).map(({ name, type, hash, gzip }) => {
    const compressed = Buffer.from(gzip, 'base64');
    return [name, { type, hash, gzip: compressed, body: gunzipSync(compressed) }];
  }),
);

export function assetName(source: SourceName): string {
  return built[source].name;
}
