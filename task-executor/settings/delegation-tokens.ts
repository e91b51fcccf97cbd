import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Credentials, decodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { writeCredentials } from '../../hadoop/rpc/credentials-file.ts';

/** Name of the program's credentials file, which is in the container's folder. */
const PROGRAM_FILE = 'delegation-tokens';

/**
 * Stores the delegation tokens in two files, one for the executor and one for its program. Replaces both files when new tokens arrive, so
 * that neither process has to restart.
 */
export class DelegationTokens {
  readonly #ownFile: string;
  readonly #programFile: string;
  #credentials: Credentials;
  /** Serialises the writes. */
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param ownFile the executor's credentials file, which also contains the executor's own secrets
   * @param folder the container's working directory
   */
  constructor(ownFile: string, folder: string, credentials: Credentials) {
    this.#ownFile = ownFile;
    this.#programFile = path.join(folder, PROGRAM_FILE);
    this.#credentials = credentials;
  }

  /**
   * Writes the tokens, without the executor's own secrets, to a file for the program. Returns the file's path, or null if there are no
   * tokens, for example on a cluster without Kerberos.
   */
  async writeForProgram(): Promise<string | null> {
    if (this.#credentials.tokens.length === 0) {
      return null;
    }
    await this.#inOrder(() => writeCredentials(this.#programFile, this.#tokensOnly()));
    return this.#programFile;
  }

  /**
   * Replaces the tokens with those in an encoded credentials file.
   * @throws TonyError CREDENTIALS_INVALID
   */
  async replace(encoded: Uint8Array): Promise<void> {
    const { tokens } = decodeCredentials(encoded);
    this.#credentials = { ...this.#credentials, tokens };
    await this.#inOrder(async () => {
      await writeCredentials(this.#ownFile, this.#credentials);
      if (existsSync(this.#programFile)) {
        await writeCredentials(this.#programFile, this.#tokensOnly());
      }
    });
  }

  #tokensOnly(): Credentials {
    return { tokens: this.#credentials.tokens, secrets: new Map() };
  }

  #inOrder(write: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(write);
    this.#writing = done.catch(() => {});
    return done;
  }
}
