import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { type HdfsLocation, type HdfsPlace, placeOf } from '../configuration/file-systems/hdfs-place.ts';
import { WebHdfs } from './web-hdfs.ts';
import type { WebHdfsOptions } from './web-hdfs-transport.ts';

/** A resolved location with a client for its file system. */
export interface OpenedPlace extends Omit<HdfsPlace, 'target'> {
  /** The file system and path. Null for a folder that exists only in a mount table, and for a path outside all mount points. */
  readonly target: { readonly fileSystem: WebHdfs; readonly path: string } | null;
}

/** The clients for the file systems in a configuration. Each client is created on first use. */
export class FileSystems {
  readonly #configuration: HadoopConfiguration;
  readonly #user: string;
  readonly #options: WebHdfsOptions;
  readonly #opened = new Map<string, WebHdfs>();

  constructor(configuration: HadoopConfiguration, user: string, options: WebHdfsOptions = {}) {
    this.#configuration = configuration;
    this.#user = user;
    this.#options = options;
  }

  /** @throws TonyError HADOOP_CONF_INVALID, STORAGE_DENIED */
  locate(location: HdfsLocation): OpenedPlace {
    const { target, ...place } = placeOf(this.#configuration, location);
    if (target === null) {
      return { ...place, target };
    }
    const key = `${target.fileSystem.scheme}://${target.fileSystem.authority}`;
    let fileSystem = this.#opened.get(key);
    if (fileSystem === undefined) {
      fileSystem = WebHdfs.of(this.#configuration, target.fileSystem, this.#user, this.#options);
      this.#opened.set(key, fileSystem);
    }
    return { ...place, target: { fileSystem, path: target.path } };
  }

  close(): void {
    for (const fileSystem of this.#opened.values()) {
      fileSystem.close();
    }
    this.#opened.clear();
  }
}
