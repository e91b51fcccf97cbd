import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../../contract/encoding/idx.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { nameOf, parentUri } from '../../../storage/uri.ts';
import { type ContentsOptions, contentsNode, type FileContents, listedFiles } from '../formats/file-format.ts';
import { codecsOf, type DecodeImageOptions, decodeImage } from '../formats/image.ts';
import type { SourceOptions } from '../formats/source-options.ts';
import { type DataFile, type Files, namesOf } from '../reading/file-set.ts';
import { InputFiles, type ListingContext, type Refresh } from '../reading/input-files.ts';
import type { DatasetNode, ReadContext } from '../reading/read-context.ts';
import { DeferredStream } from '../reading/stream.ts';
import { chunkMapNode } from '../transforms/map.ts';
import { FileSource } from './file-source.ts';

export interface ImageOptions extends DecodeImageOptions, SourceOptions, ContentsOptions {
  /** Names of the class folders, in label order. Images in other folders are ignored. Default: all folders, sorted by name. */
  readonly classNames?: readonly string[];
  /** Whether to skip and count images that cannot be decoded. Otherwise, such an image is an error. Default: false. */
  readonly skipDamaged?: boolean;
}

export interface ImageElement {
  /** Pixels as a column of shape [height, width, channels], with one byte per value. */
  readonly image: Column;
  readonly label: number;
  readonly uri: string;
}

const IMAGE = /\.(png|jpe?g|bmp|gif)$/i;

/** Lists the images in the class folders. Each image's label is the number of its folder. */
export async function labelledImages(
  context: ListingContext,
  files: Files,
  { classNames, refresh }: { readonly classNames?: readonly string[] | undefined; readonly refresh?: Refresh | undefined } = {},
): Promise<{ readonly files: DataFile[]; readonly classNames: readonly string[]; labelOf(uri: string): number }> {
  const images = (await new InputFiles([files], refresh).list(context)).filter(({ uri }) => IMAGE.test(uri));
  const names = classNames ?? [...new Set(images.map(({ uri }) => folderOf(uri)))].sort();
  const labels = new Map(names.map((name, label) => [name, label]));
  const counting = images.filter(({ uri }) => labels.has(folderOf(uri)));
  if (counting.length === 0) {
    throw new TonyError(
      'NOT_FOUND',
      `no PNG, JPEG, BMP or GIF image matches ${namesOf(files)
        .map(({ text }) => text)
        .join(', ')}`,
      {
        hint: 'Pass a pattern that matches the class folders, as in images(tf, "flowers/*").',
      },
    );
  }
  return { files: counting, classNames: names, labelOf: (uri) => labels.get(folderOf(uri)) as number };
}

function folderOf(uri: string): string {
  return nameOf(parentUri(uri));
}

/** Reads and decodes image files. */
export function imageNode(tf: typeof tfjs, names: Files, options: ImageOptions): DatasetNode<ImageElement> {
  codecsOf(tf);
  if (options.refresh === 'epoch' && options.classNames === undefined) {
    throw new TonyError(
      'USAGE',
      "images with refresh: 'epoch' needs classNames, because a new folder would change the numbers of the classes",
    );
  }
  const decode = (uri: string, bytes: Buffer, onDamage: ReadContext['onDamage']): Column | null => {
    try {
      return decodeImage(tf, bytes, options);
    } catch (error) {
      const damage = new TonyError('DATA_INVALID', `${uri}: ${messageOf(error)}`, { cause: error });
      if (options.skipDamaged !== true) {
        throw damage;
      }
      onDamage(damage);
      return null;
    }
  };
  return {
    open: (context, from) =>
      new DeferredStream(async () => {
        const { files, labelOf } = await labelledImages(context, names, options);
        const contents = contentsNode(new FileSource(async () => files, listedFiles, options), options);
        const images = chunkMapNode(contents, (items: readonly FileContents[], { onDamage }) =>
          items.flatMap(({ uri, bytes }) => {
            const image = decode(uri, bytes, onDamage);
            return image === null ? [] : [{ image, label: labelOf(uri), uri }];
          }),
        );
        return images.open(context, from);
      }),
  };
}
