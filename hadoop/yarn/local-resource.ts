/** File or archive that YARN localises in a container's working directory. `name` is the relative path of the localised copy. */
export interface LocalResource {
  readonly name: string;
  readonly uri: string;
  readonly type: 'archive' | 'file';
  /**
   * Applications that share the localised copy on a node: those of all users (`public`), those of the user (`private`), or only this
   * application (`application`).
   */
  readonly visibility: 'public' | 'private' | 'application';
  readonly size: number;
  /** Modification time in ms since the epoch. The localisation fails if the file has been modified since the job was submitted. */
  readonly timestamp: number;
}
