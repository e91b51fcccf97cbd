import { TonyError } from '../../platform/errors.ts';

export interface RemoteFailure {
  /** The action that failed, for the error message. Example: `allocate at rm1:8030`. */
  readonly action: string;
  readonly exceptionClassName: string;
  /** The daemon's complete error text, which consists of the exception message and the Java stack trace. */
  readonly errorMessage: string;
  /** True if the server has closed the connection because of the exception. */
  readonly fatal: boolean;
}

/** An exception that a Hadoop daemon has returned. */
export class RemoteError extends TonyError {
  /** Fully qualified class name, e.g. org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException. */
  readonly exceptionClassName: string;
  readonly fatal: boolean;
  readonly remoteMessage: string;

  constructor(failure: RemoteFailure) {
    const remoteMessage = withoutStack(failure.errorMessage);
    const name = simpleName(failure.exceptionClassName);
    super('RPC_FAILED', `${failure.action} failed: ${remoteMessage === '' ? name : `${remoteMessage} (${name})`}`);
    this.exceptionClassName = failure.exceptionClassName;
    this.fatal = failure.fatal;
    this.remoteMessage = remoteMessage;
  }

  /**
   * Returns true if the exception's class has one of these simple names. Example: the simple name of `...SecretManager$InvalidToken` is
   * `InvalidToken`.
   */
  is(...names: readonly string[]): boolean {
    return names.includes(simpleName(this.exceptionClassName));
  }
}

function simpleName(className: string): string {
  return className.slice(Math.max(className.lastIndexOf('.'), className.lastIndexOf('$')) + 1) || 'unknown exception';
}

function withoutStack(text: string): string {
  return (
    text
      .replace(/^[\s\r\n]+/, '')
      .split(/\r?\n/, 1)[0]
      ?.trim() ?? ''
  );
}
