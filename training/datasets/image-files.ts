import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { nameOf, parentUri } from '../../storage/uri.ts';
import type { Column } from '../idx.ts';
import { type ContentsOptions, contentsNode, type FileContents, listedFiles } from './file-format.ts';
import { type DataFile, type Files, listFiles } from './file-set.ts';
import { FileSource, type SourceOptions } from './file-source.ts';
import { codecsOf, type DecodeImageOptions, decodeImage } from './image.ts';
import { ChunkMapNode } from './map.ts';
import type { DatasetNode, ReadContext } from './read-context.ts';
import { type ChunkStream, DeferredStream, type Json } from './stream.ts';

export interface ImageOptions extends DecodeImageOptions, SourceOptions, ContentsOptions {
  /** Names of folders, in the order of their labels: images in other folders are left out. All folders by their names unless told. */
  readonly classNames?: readonly string[];
  /** What cannot be decoded is left out and counted instead of ending the reading; false unless told. */
  readonly skipDamaged?: boolean;
}

export interface ImageElement {
  /** [height, width, channels], a byte each. */
  readonly image: Column;
  /** The number of the image's folder. */
  readonly label: number;
  readonly uri: string;
}

const IMAGE = /\.(png|jpe?g|bmp|gif)$/i;

/** The images among the files, in the folders that count, and their labels. */
export async function labelledImages(
  storage: Storage,
  files: Files,
  classNames?: readonly string[],
): Promise<{ readonly files: DataFile[]; readonly classNames: readonly string[]; labelOf(uri: string): number }> {
  const images = (await listFiles(storage, files)).filter(({ uri }) => IMAGE.test(uri));
  const names = classNames ?? [...new Set(images.map(({ uri }) => folderOf(uri)))].sort();
  const labels = new Map(names.map((name, label) => [name, label]));
  const counting = images.filter(({ uri }) => labels.has(folderOf(uri)));
  if (counting.length === 0) {
    throw new TonyError('NOT_FOUND', `no PNG, JPEG, BMP or GIF image is named by ${[files].flat().join(', ')}`, {
      hint: 'Name the folders of the classes, as in images(tf, "flowers/*").',
    });
  }
  return { files: counting, classNames: names, labelOf: (uri) => labels.get(folderOf(uri)) as number };
}

function folderOf(uri: string): string {
  return nameOf(parentUri(uri));
}

/** Image files, decoded when their turn comes. */
export class ImageNode implements DatasetNode<ImageElement> {
  readonly #tf: typeof tfjs;
  readonly #files: Files;
  readonly #options: ImageOptions;

  constructor(tf: typeof tfjs, files: Files, options: ImageOptions) {
    codecsOf(tf);
    this.#tf = tf;
    this.#files = files;
    this.#options = options;
  }

  open(context: ReadContext, from: Json): ChunkStream<ImageElement> {
    return new DeferredStream(async () => {
      const { classNames } = this.#options;
      const { files, labelOf } = await labelledImages(context.storage, this.#files, classNames);
      const contents = contentsNode(new FileSource(async () => files, listedFiles, this.#options), this.#options);
      const decode = (items: readonly FileContents[], { onDamage }: ReadContext) =>
        items.flatMap(({ uri, bytes }) => {
          const image = this.#decode(uri, bytes, onDamage);
          return image === null ? [] : [{ image, label: labelOf(uri), uri }];
        });
      return new ChunkMapNode(contents, decode).open(context, from);
    });
  }

  #decode(uri: string, bytes: Buffer, onDamage: ReadContext['onDamage']): Column | null {
    try {
      return decodeImage(this.#tf, bytes, this.#options);
    } catch (error) {
      const damage = new TonyError('DATA_INVALID', `${uri}: ${messageOf(error)}`, { cause: error });
      if (this.#options.skipDamaged !== true) throw damage;
      onDamage(damage);
      return null;
    }
  }
}
